"""The keywords of requests and engines with their types, which docs/embedding.md and the headers
in include/paceline explain one by one."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Union

Seconds = Union[float, datetime.timedelta]
Speculation = Literal["off", "sync", "overlap", "auto"]
NumberFormat = Literal["auto", "f32", "f16", "bf16"]
WeightFormat = Literal["mxfp8", "mxfp8-e5m2", "mxfp6", "mxfp6-e3m2", "mxfp4", "mxint8"]
Activations = Literal["auto", "bf16", "int8"]
KvCacheDtype = Literal["auto", "weights", "int8"]


class RequestFields(TypedDict, total=False):
    """What a request may say beside its prompt. Times are seconds, or a timedelta."""

    prompt: str
    prompt_tokens: Sequence[int]
    add_special_tokens: bool
    parse_special_tokens: bool
    max_tokens: int | None
    stop: str | Sequence[str]
    stop_token_ids: Sequence[int]
    ignore_eos: bool
    min_tokens: int
    skip_special_tokens: bool
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    logit_bias: Mapping[int, float] | Sequence[tuple[int, float]]
    allowed_token_ids: Sequence[int]
    seed: int | None
    choice: int
    constraint: Mapping[str, Any] | None
    speculation: Speculation | None
    window: int | None
    drafter: str | None
    verify: Literal["rejection", "coupled", "match", "auto"]
    draft_scope: str
    cache_salt: str
    logprobs: bool
    top_logprobs: int
    prompt_logprobs: bool
    logprobs_mode: Literal["raw", "processed"]
    deadline: Seconds | None
    priority: int
    client: str
    client_weight: int


class FaultFields(TypedDict, total=False):
    restart_pause: Seconds
    restart_pause_max: Seconds
    restarts_max: int
    restarts_forgotten: Seconds
    recomputations_max: int
    stall_patience: Seconds
    heartbeat: Seconds
    stage_patience: Seconds


class NodeTlsFields(TypedDict, total=False):
    certificate: str
    key: str
    authority: str


class EngineFields(TypedDict, total=False):
    """What an engine may be told beside its models."""

    chat_template: str
    draft_memory_bytes: int
    devices: str | Sequence[str]
    pipeline_parallel_size: int
    tensor_parallel_size: int
    stage_layers: Sequence[int]
    draft_devices: str | Sequence[str]
    draft_pipeline_parallel_size: int
    draft_tensor_parallel_size: int
    node_tls: NodeTlsFields
    node_rows: NumberFormat
    draft_top_k: int
    reserve_device: str
    threads: int
    dtype: NumberFormat
    weights: WeightFormat | None
    draft_weights: WeightFormat | None
    head_weights: WeightFormat | None
    weight_scales: Literal["floor", "ceil", "search"]
    activations: Activations
    draft_activations: Activations
    kv_cache_dtype: KvCacheDtype
    draft_kv_cache_dtype: KvCacheDtype
    memory_bytes: int
    max_model_len: int
    kv_memory_bytes: int
    page_tokens: int
    max_num_seqs: int
    max_waiting: int
    prefill_chunk: int
    prefill: Literal["invariant", "fast"]
    scheduling: Literal["fcfs", "priority", "deadline"]
    batching: Literal["hybrid", "prefill-first", "request"]
    row_budget: int
    time_between_tokens: Seconds
    speculation: Speculation
    window: int | None
    lookahead: Literal["auto", "none", "chain", "fork"]
    fork_rows: int
    tree_rows: int | None
    faults: FaultFields
    trace_file: str
    progress: Callable[[str, float], object]
    log: Callable[[str, str], object]
