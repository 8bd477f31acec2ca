"""Assembles the source of the machine code, and writes the bytes into `gputui/inject/ways/x86_64.py`.

    python -m tests.inject.assemble

It needs `as` and `objcopy` for x86-64; a test compares the bytes.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "gputui" / "inject" / "ways"


def pieces() -> dict[str, bytes]:
    """The bytes from each label `NAME` to `NAME_end` of the source."""
    with tempfile.TemporaryDirectory() as folder:
        made, binary = Path(folder) / "object", Path(folder) / "binary"
        subprocess.run(["as", FOLDER / "x86_64.s", "-o", made], check=True)
        subprocess.run(["objcopy", "-O", "binary", "-j", ".text", made, binary], check=True)
        listing = subprocess.run(["nm", made], check=True, capture_output=True, text=True).stdout
        code = binary.read_bytes()
    labels = {line.split()[2]: int(line.split()[0], 16) for line in listing.splitlines()}
    return {
        name: code[labels[name] : end]
        for name, end in ((label.removesuffix("_end"), at) for label, at in labels.items() if label.endswith("_end"))
    }


def main() -> None:
    """Replace the hexadecimal texts in `x86_64.py`."""
    path = FOLDER / "x86_64.py"
    text = path.read_text()
    for name, code in pieces().items():
        lines = "".join(f'    "{code[at : at + 48].hex()}"\n' for at in range(0, len(code), 48))
        text, times = re.subn(
            rf"^{name.upper()} = bytes\.fromhex\(\n.*?^\)\n",
            f"{name.upper()} = bytes.fromhex(\n{lines})\n",
            text,
            flags=re.MULTILINE | re.DOTALL,
        )
        if times != 1:
            raise SystemExit(f"x86_64.py has no {name.upper()}")
    path.write_text(text)


if __name__ == "__main__":
    main()
