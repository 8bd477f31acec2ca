"""Reads the pages of metrics that other programs on this machine offer.

`fetch` gets a page, bounded in time and size, whoever answers; `dcgm` reads true utilisation from dcgm-exporter's page,
`server` the requests and the KV cache from the page of a vLLM or SGLang.
"""
