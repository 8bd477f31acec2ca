"""Pages of metrics that programs of this machine offer: how one is fetched, and what is taken from it.

- `fetch`: bounded in time and size, whoever answers.
- `dcgm`: true utilisation, where somebody runs dcgm-exporter. `server`: what a vLLM or SGLang says of its requests.
"""
