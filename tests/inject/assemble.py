"""Assembles the sources of the machine code, and writes the bytes into `gputui/inject/ways/machine_code.py`.

    python -m tests.inject.assemble

It needs `as` and `objcopy` for x86-64 and `llvm-mc` and `llvm-objcopy` for aarch64; a test compares the bytes.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "gputui" / "inject" / "ways"
ASSEMBLERS = {
    "x86_64": ("as", "{source}", "-o", "{object}"),
    "aarch64": ("llvm-mc", "--arch=aarch64", "--filetype=obj", "{source}", "-o", "{object}"),
}
OBJCOPY = {"x86_64": "objcopy", "aarch64": "llvm-objcopy"}
NM = {"x86_64": "nm", "aarch64": "llvm-nm"}


def pieces(machine: str) -> dict[str, bytes]:
    """The bytes from each label `NAME` to `NAME_end` of a machine's source."""
    with tempfile.TemporaryDirectory() as folder:
        names = {
            "source": FOLDER / f"{machine}.s",
            "object": Path(folder) / "object",
            "binary": Path(folder) / "binary",
        }
        subprocess.run([word.format(**names) for word in ASSEMBLERS[machine]], check=True)
        subprocess.run([OBJCOPY[machine], "-O", "binary", "-j", ".text", names["object"], names["binary"]], check=True)
        listing = subprocess.run([NM[machine], names["object"]], check=True, capture_output=True, text=True).stdout
        binary = names["binary"].read_bytes()
    labels = {line.split()[2]: int(line.split()[0], 16) for line in listing.splitlines()}
    return {
        name: binary[labels[name] : end]
        for name, end in ((label.removesuffix("_end"), at) for label, at in labels.items() if label.endswith("_end"))
    }


def main() -> None:
    """Replace the hexadecimal texts in `machine_code.py`."""
    path = FOLDER / "machine_code.py"
    text = path.read_text()
    for machine in ASSEMBLERS:
        if (FOLDER / f"{machine}.s").exists():
            for name, code in pieces(machine).items():
                lines = "".join(f'    "{code[at : at + 48].hex()}"\n' for at in range(0, len(code), 48))
                start = f"{machine}_{name}".upper()
                text, times = re.subn(
                    rf"^_{start} = bytes\.fromhex\(\n.*?^\)\n",
                    f"_{start} = bytes.fromhex(\n{lines})\n",
                    text,
                    flags=re.MULTILINE | re.DOTALL,
                )
                if times != 1:
                    raise SystemExit(f"machine_code.py has no _{start}")
    path.write_text(text)


if __name__ == "__main__":
    main()
