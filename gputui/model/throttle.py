"""Why a device's clocks are below their maximum: NVML's clocks event reasons, as stable words and as sentences."""

THROTTLE_SENTENCES = {
    "gpu_idle": "Nothing is running on the GPU, so its clocks are lowered.",
    "applications_clocks_setting": "Clocks are held at the application clocks that somebody has set.",
    "sw_power_cap": "The driver lowers the clocks to stay within the power limit.",
    "hw_slowdown": "The hardware has cut the clocks by half or more: too hot, a power brake, or a power supply fault.",
    "sync_boost": "The GPU is in a sync boost group and waits for its slowest member.",
    "sw_thermal_slowdown": "The driver lowers the clocks because the GPU or its memory is too hot.",
    "hw_thermal_slowdown": "The hardware has cut the clocks by half or more because the GPU is too hot.",
    "hw_power_brake_slowdown": "The hardware has cut the clocks by half or more on a signal of the power supply.",
    "display_clock_setting": "The clocks are limited by the display's settings.",
}
"""The sentence of each reason. The words are part of `gputui --once --json`: do not rename them."""
