"""Writes tests/models/data/checkpoints.json: what `transformers` computes of tiny checkpoints.

Usage: checkpoints.py [--check]   (from the repository's root; `./dev reference checkpoints` runs it)

With --check the file is compared with what would be written.

A case is a config.json as the hub has it. Weights are not stored: each is a function of its name and index (see
weights.py), which the tests repeat. For each number format of a case the reference runs in f32 on the weights as that
format holds them, and leaves some rows of logits, the log-probability of every prompt token, and a greedy continuation
with the gap between the two highest logits at each step. An option that changes nothing would prove nothing, so each case
also names one change of its config.json that must change the logits.
"""
import copy, json, logging, math, sys, tempfile
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar
from weights import weights

logging.disable(logging.WARNING)
disable_progress_bar()
torch.set_num_threads(1) # more would wait for each other: the models are tiny
FILE = "tests/models/data/checkpoints.json"
# All hidden states: else Gemma 4 without embeddings of layers fails where these share keys.
ALL = {"output_hidden_states": True}
PROMPT, ROWS, GREEDY = 72, (0, 30, 50, 71), 16
BASE = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "vocab_size": 160,
        "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "tie_word_embeddings": False}
GPT = {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128, "n_inner": None, "vocab_size": 160, "bos_token_id": 1,
       "eos_token_id": 2, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": False}
NEOX = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 160,
        "max_position_embeddings": 128, "bos_token_id": 0, "eos_token_id": 0, "layer_norm_eps": 1e-5, "hidden_act": "gelu",
        "rotary_pct": 0.25, "rotary_emb_base": 10000, "tie_word_embeddings": False}
OPT = {"hidden_size": 64, "ffn_dim": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 160,
       "max_position_embeddings": 128, "bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1, "word_embed_proj_dim": 64,
       "do_layer_norm_before": True, "activation_function": "relu", "tie_word_embeddings": True}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
QWEN3_5 = {"head_dim": 32, "num_hidden_layers": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
           "linear_key_head_dim": 16, "linear_value_head_dim": 24, "rms_norm_eps": 1e-6}
LFM2 = {"num_hidden_layers": 4, "norm_eps": 1e-5, "tie_word_embeddings": True, "block_multiple_of": 16,
        "layer_types": ["conv", "conv", "full_attention", "conv"], "rope_theta": 1000000.0}
GRANITE = {"attention_multiplier": 0.125, "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 6.0,
           "tie_word_embeddings": True}
GRANITE4 = {**GRANITE, "embedding_multiplier": 3.0, "num_hidden_layers": 4, "layer_types": ["mamba", "mamba", "attention", "mamba"], "mamba_n_heads": 8,
            "mamba_n_groups": 1, "mamba_d_state": 16, "mamba_d_head": 12, "mamba_d_conv": 4, "mamba_expand": 2,
            "mamba_chunk_size": 16, "mamba_conv_bias": True, "mamba_proj_bias": False, "shared_intermediate_size": 40}
NEMOTRON = {"num_hidden_layers": 4, "layer_norm_epsilon": 1e-5, "mlp_hidden_act": "relu2", "head_dim": 16, "mamba_num_heads": 8,
            "mamba_head_dim": 12, "n_groups": 2, "ssm_state_size": 16, "conv_kernel": 4, "expand": 2, "chunk_size": 16,
            "use_conv_bias": True, "use_bias": False, "mlp_bias": False, "attention_bias": False,
            "time_step_min": 1e-30} # A bound of times for transformers, of those before training for others.
GEMMA = {"hidden_activation": "gelu_pytorch_tanh", "head_dim": 16, "query_pre_attn_scalar": 24, "num_hidden_layers": 4,
         "sliding_window": 20, "tie_word_embeddings": True, "rms_norm_eps": 1e-6}
GEMMA4 = {"hidden_activation": "gelu_pytorch_tanh", "head_dim": 16, "global_head_dim": 32, "sliding_window": 20,
          "tie_word_embeddings": True, "rms_norm_eps": 1e-6, "hidden_size_per_layer_input": 0, "num_hidden_layers": 4,
          "layer_types": ["sliding_attention", "full_attention"] * 2}


def case(name, architecture, options, change, dtypes=("f32", "bf16"), base=BASE, **more):
    model_type = {"Gemma3": "gemma3_text", "Qwen2Moe": "qwen2_moe", "Qwen3Moe": "qwen3_moe",
                  "Glm4Moe": "glm4_moe", "GptOss": "gpt_oss", "Qwen3_5": "qwen3_5_text",
                  "Gemma4": "gemma4_text", "Lfm2Moe": "lfm2_moe", "Qwen3_5Moe": "qwen3_5_moe_text", "Qwen3Next": "qwen3_next", "GPTNeoX": "gpt_neox",
                  "NemotronH": "nemotron_h",
                  }.get(architecture, architecture.lower())
    called = architecture + ("LMHeadModel" if architecture == "GPT2" else "ForCausalLM")
    config = {**base, "architectures": [called], "model_type": model_type, **options}
    return {"name": name, "config": config, "change": change, "dtypes": dtypes, **more}


CASES = [
    case("Llama 2, TinyLlama", "Llama", {"rope_scaling": None}, {"rope_theta": 500.0}, ("f32", "bf16", "f16")),
    case("Llama with biases, one head of keys for each query", "Llama",
         {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 4, "head_dim": 20}, {"rope_theta": 500.0}),
    case("linear positions", "Llama", {"rope_scaling": {"type": "linear", "factor": 4.0}}, {"rope_scaling": None}),
    case("Llama 3", "Llama", {"rope_theta": 500000.0, "rope_scaling": LLAMA3}, {"rope_scaling": None}),
    case("YaRN", "Llama", {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}},
         {"rope_scaling": None}),
    case("YaRN with all its options, new spelling", "Llama",
         {"rope_parameters": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16, "beta_fast": 4.0,
                              "beta_slow": 0.5, "mscale": 1.5, "mscale_all_dim": 0.5, "truncate": False,
                              "rope_theta": 10000.0}, "head_dim": 32},
         {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}),
    case("SmolLM 2", "Llama", {"tie_word_embeddings": True, "rope_interleaved": False, "rope_theta": 100000},
         {"rope_theta": 500.0}),
    case("Mistral with a window", "Mistral", {"sliding_window": 19}, {"sliding_window": 23}, ("f32", "bf16", "f16")),
    case("Mistral without one", "Mistral", {"sliding_window": None, "head_dim": 16}, {"sliding_window": 30}),
    case("Qwen 2", "Qwen2", {"use_sliding_window": False, "sliding_window": 20, "max_window_layers": 1,
                             "tie_word_embeddings": True, "rope_theta": 1000000.0}, {"use_sliding_window": True}, shards=3),
    case("Qwen 2 with windows", "Qwen2", {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1},
         {"use_sliding_window": False}),
    case("Qwen 3", "Qwen3", {"head_dim": 32, "rope_theta": 1000000, "sliding_window": None, "use_sliding_window": False},
         {"rope_theta": 500.0}, shards=2),
    case("Qwen 3 with biases and listed layers", "Qwen3",
         {"head_dim": 16, "attention_bias": True, "use_sliding_window": True, "sliding_window": 12,
          "layer_types": ["full_attention", "sliding_attention", "full_attention"]}, {"sliding_window": 20}),
    case("Gemma 2", "Gemma2", {**GEMMA, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
         {"attn_logit_softcapping": 3.0}),
    case("Gemma 2 without soft caps", "Gemma2",
         {**GEMMA, "attn_logit_softcapping": None, "final_logit_softcapping": None}, {"query_pre_attn_scalar": 16}),
    case("Gemma 3", "Gemma3", {**GEMMA, "sliding_window_pattern": 3, "rope_local_base_freq": 10000.0,
                               "rope_theta": 1000000.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
         {"rope_local_base_freq": 100.0}),
    case("Gemma 3, new spelling", "Gemma3",
         {**GEMMA, "layer_types": ["sliding_attention", "full_attention"] * 2, "rope_parameters": {
             "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 50000.0},
             "sliding_attention": {"rope_type": "default", "rope_theta": 2000.0}}}, {"sliding_window": 50}),
    case("Phi 3", "Phi3", {"sliding_window": 33, "rope_scaling": None, "pad_token_id": 2}, {"sliding_window": 50}),
    case("Phi 3 that rotates a part of each head", "Phi3",
         {"sliding_window": None, "head_dim": None, "hidden_size": 64, "partial_rotary_factor": 0.75, "pad_token_id": 2},
         {"partial_rotary_factor": 1.0}),
    case("SmolLM 3", "SmolLM3", {"no_rope_layer_interval": 2, "num_hidden_layers": 4, "tie_word_embeddings": True,
                                 "rope_theta": 5000000.0, "pad_token_id": 2}, {"no_rope_layer_interval": 3}),
    case("SmolLM 3 with listed layers", "SmolLM3",
         {"no_rope_layers": [0, 1, 1], "use_sliding_window": True, "sliding_window": 16, "attention_bias": True,
          "pad_token_id": 2}, {"use_sliding_window": False}),
    case("OLMo 2", "Olmo2", {"rope_theta": 500000}, {"rms_norm_eps": 0.5}, shards=2),
    case("YaRN, trained positions outside", "Llama",
         {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
          "original_max_position_embeddings": 16, "head_dim": 32}, {"original_max_position_embeddings": 64}),
    case("Llama 3, trained positions outside", "Llama",
         {"rope_theta": 500000.0, "rope_scaling": LLAMA3, "original_max_position_embeddings": 8},
         {"original_max_position_embeddings": 32}),
    case("tied, but the file has another head", "Llama", {"tie_word_embeddings": True}, {"rope_theta": 500.0},
         tables=("model.embed_tokens.weight", "lm_head.weight")),
    case("tied, and the file has the head only", "Llama", {"tie_word_embeddings": True}, {"rope_theta": 500.0},
         tables=("lm_head.weight",)),
    case("Gemma 3 with a soft cap of logits", "Gemma3", {**GEMMA, "final_logit_softcapping": 3.0},
         {"final_logit_softcapping": 5.0}),
    case("Mixtral", "Mixtral", {"num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": None,
                                "rope_theta": 1000000.0}, {"num_experts_per_tok": 3}, shards=2),
    case("Mixtral with a window", "Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 1, "sliding_window": 19},
         {"sliding_window": 23}),
    case("Qwen 3 MoE", "Qwen3Moe",
         {"head_dim": 32, "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 40, "norm_topk_prob": True,
          "decoder_sparse_step": 1, "mlp_only_layers": [], "rope_theta": 1000000.0}, {"norm_topk_prob": False}),
    case("Qwen 3 MoE with dense layers and windows", "Qwen3Moe",
         {"head_dim": 16, "num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 24, "norm_topk_prob": False,
          "decoder_sparse_step": 2, "mlp_only_layers": [1], "num_hidden_layers": 4, "attention_bias": True,
          "use_sliding_window": True, "sliding_window": 20, "max_window_layers": 2}, {"sliding_window": 30}),
    case("OLMoE", "Olmoe", {"num_experts": 6, "num_experts_per_tok": 2, "norm_topk_prob": False, "clip_qkv": None,
                            "rope_theta": 10000.0}, {"norm_topk_prob": True}),
    case("Qwen 2 MoE", "Qwen2Moe",
         {"head_dim": 16, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
          "shared_expert_intermediate_size": 40, "norm_topk_prob": False, "use_sliding_window": False},
         {"norm_topk_prob": True}),
    case("Qwen 2 MoE with dense layers and windows", "Qwen2Moe",
         {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 56,
          "norm_topk_prob": True, "decoder_sparse_step": 2, "num_hidden_layers": 4, "qkv_bias": False,
          "use_sliding_window": True, "sliding_window": 20, "max_window_layers": 3}, {"sliding_window": 30}, shards=2),
    case("GLM-4.5", "Glm4Moe",
         {"head_dim": 24, "partial_rotary_factor": 0.5, "n_routed_experts": 8, "num_experts_per_tok": 2,
          "moe_intermediate_size": 24, "n_shared_experts": 1, "first_k_dense_replace": 1, "norm_topk_prob": True,
          "routed_scaling_factor": 2.5, "n_group": 1, "topk_group": 1, "use_qk_norm": True, "attention_bias": True},
         {"routed_scaling_factor": 1.0}),
    case("GLM-4.5 Air, with groups", "Glm4Moe",
         {"head_dim": 16, "n_routed_experts": 16, "num_experts_per_tok": 3, "moe_intermediate_size": 16,
          "n_shared_experts": 2, "first_k_dense_replace": 0, "norm_topk_prob": False, "routed_scaling_factor": 1.0,
          "n_group": 4, "topk_group": 2}, {"topk_group": 4}),
    case("dots.llm1", "Dots1",
         {"n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "n_shared_experts": 2,
          "first_k_dense_replace": 1, "norm_topk_prob": True, "routed_scaling_factor": 1.5, "n_group": 1, "topk_group": 1,
          "sliding_window": None}, {"norm_topk_prob": False}),
    case("dots.llm1 with windows", "Dots1",
         {"n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_shared_experts": 1,
          "norm_topk_prob": False, "attention_bias": True, "sliding_window": 20, "max_window_layers": 1},
         {"sliding_window": 30}),
    case("gpt-oss", "GptOss",
         {"head_dim": 16, "num_local_experts": 6, "num_experts_per_tok": 2, "attention_bias": True, "sliding_window": 20,
          "swiglu_limit": 1.0, "rope_theta": 150000, "rope_scaling": {
              "rope_type": "yarn", "factor": 8.0, "beta_fast": 8.0, "beta_slow": 1.0, "truncate": False,
              "original_max_position_embeddings": 32}}, {"swiglu_limit": 7.0}, shards=2),
    case("gpt-oss with listed layers and its own rotation", "GptOss",
         {"head_dim": 24, "num_attention_heads": 6, "num_local_experts": 4, "num_experts_per_tok": 3, "attention_bias": False,
          "layer_types": ["full_attention", "full_attention", "sliding_attention"], "sliding_window": 9,
          "swiglu_alpha": 0.5}, {"swiglu_alpha": 2.5}),
    case("gpt-oss, new spelling", "GptOss",
         {"num_hidden_layers": 2, "num_local_experts": 8, "num_experts_per_tok": 4, "head_dim": 16, "sliding_window": 16,
          "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0}}, {"sliding_window": 40}),
    case("Qwen 3.5", "Qwen3_5",
         {**QWEN3_5, "rope_parameters": {"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25,
                                         "mrope_section": [2, 1, 1], "mrope_interleaved": True}},
         {"full_attention_interval": 2, "layer_types": ["linear_attention"] * 3 + ["full_attention"],
          "rms_norm_eps": 0.5}, shards=2),
    case("Qwen 3.5 that ends with a recurrent layer", "Qwen3_5",
         {**QWEN3_5, "num_hidden_layers": 3, "linear_num_key_heads": 4, "linear_conv_kernel_dim": 3,
          "tie_word_embeddings": True, "attention_bias": False,
          "layer_types": ["full_attention", "linear_attention", "linear_attention"],
          "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 0.5}},
         {"rope_parameters": {"rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 0.25}}),
    case("Qwen 3.5 MoE", "Qwen3_5Moe",
         {**QWEN3_5, "intermediate_size": None, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
          "shared_expert_intermediate_size": 40, "linear_num_key_heads": 1,
          "rope_parameters": {"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25}},
         {"num_experts_per_tok": 3}),
    case("Granite 3", "Granite", {**GRANITE, "rope_theta": 10000.0}, {"residual_multiplier": 0.4}),
    case("OLMo 3", "Olmo3",
         {"num_hidden_layers": 4, "sliding_window": 20, "rope_theta": 500000.0, "rope_scaling": {
             "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16, "beta_fast": 32.0,
             "beta_slow": 1.0, "attention_factor": 1.2079441541679836}}, {"rope_scaling": None}),
    case("Ministral 3", "Ministral3",
         {"head_dim": 16, "rope_parameters": {
             "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "original_max_position_embeddings": 96,
             "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}},
         {"sliding_window": 20}),
    case("Qwen 3 Next", "Qwen3Next",
         {**QWEN3_5, "num_experts": 8, "num_experts_per_tok": 4, "moe_intermediate_size": 24, "decoder_sparse_step": 1,
          "shared_expert_intermediate_size": 40, "rope_theta": 10000000, "partial_rotary_factor": 0.25,
          "full_attention_interval": 4}, {"num_experts_per_tok": 2}),
    case("GPT-2", "GPT2", {"tie_word_embeddings": True}, {"layer_norm_epsilon": 0.1}, ("f32", "bf16", "f16"), GPT, shards=2),
    case("GPT-2 with its options", "GPT2", {"n_inner": 80, "activation_function": "relu", "scale_attn_weights": False},
         {"scale_attn_weights": True}, base=GPT),
    case("Pythia", "GPTNeoX", {}, {"rotary_pct": 0.5}, ("f32", "bf16", "f16"), NEOX, shards=2),
    case("GPT-NeoX in turn", "GPTNeoX",
         {"use_parallel_residual": False, "attention_bias": False, "rotary_pct": 1.0, "rotary_emb_base": 500,
          "hidden_act": "gelu_fast", "tie_word_embeddings": True}, {"use_parallel_residual": True}, base=NEOX),
    case("GPT-NeoX, new spelling", "GPTNeoX",
         {"rotary_pct": None, "rotary_emb_base": None, "rope_parameters": {
             "rope_type": "linear", "factor": 4.0, "rope_theta": 5000.0, "partial_rotary_factor": 0.5}},
         {"rope_parameters": {"rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 0.5}}, base=NEOX),
    case("OPT", "OPT", {}, {"activation_function": "gelu"}, ("f32", "bf16", "f16"), OPT, shards=2),
    case("OPT with its options", "OPT", {"enable_bias": False, "activation_function": "gelu", "tie_word_embeddings": False},
         {"activation_function": "relu"}, base=OPT),
    case("GPT-J", "GPTJ", {"rotary_dim": 8}, {"rotary_dim": 4}, ("f32", "bf16", "f16"), GPT),
    case("GPT-J with its options", "GPTJ", {"rotary_dim": 16, "n_inner": 80, "activation_function": "gelu"},
         {"activation_function": "relu"}, base=GPT),
    case("CodeGen", "CodeGen", {"n_head": 8, "rotary_dim": 4}, {"rotary_dim": 8}, ("f32", "bf16", "f16"), GPT,
         shards=2),
    case("CodeGen with its options", "CodeGen",
         {"rotary_dim": 8, "n_inner": 80, "activation_function": "relu"}, {"activation_function": "gelu"},
         base=GPT),
    case("Gemma 4", "Gemma4",
         {**GEMMA4, "num_global_key_value_heads": 1, "attention_k_eq_v": True, "final_logit_softcapping": 3.0},
         {"rope_parameters": {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.75,
                                                 "rope_theta": 500.0},
                              "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}, shards=2),
    case("Gemma 4 with its options", "Gemma4",
         {**GEMMA4, "global_head_dim": None, "num_hidden_layers": 7, "layer_types": None, "attention_bias": True,
          "attention_k_eq_v": True, "per_layer_config": {"5": {"head_dim": 48, "num_key_value_heads": 4},
                                                         "6": {"head_dim": 48, "num_key_value_heads": 4}},
          "rope_parameters": {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "factor": 4.0,
                                                 "rope_theta": 50000.0},
                              "sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 2000.0}}},
         {"sliding_window": 40}),
    case("Gemma 4 with embeddings of layers, and keys that these share", "Gemma4",
         {**GEMMA4, "num_hidden_layers": 6, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
          "num_key_value_heads": 1, "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 160,
          "num_kv_shared_layers": 3, "use_double_wide_mlp": True, "final_logit_softcapping": 3.0},
         {"sliding_window": 12}),
    case("Gemma 4 that shares keys without such embeddings", "Gemma4",
         {**GEMMA4, "num_hidden_layers": 5, "layer_types": ["full_attention", "sliding_attention"] * 2 + ["full_attention"],
          "num_kv_shared_layers": 2, "attention_k_eq_v": True}, {"sliding_window": 12}),
    case("Gemma 4 MoE", "Gemma4",
         {**GEMMA4, "num_global_key_value_heads": 1, "attention_k_eq_v": True, "final_logit_softcapping": 3.0,
          "enable_moe_block": True, "num_experts": 8, "top_k_experts": 3, "moe_intermediate_size": 24},
         {"top_k_experts": 2}, shards=2),
    case("Granite 3 MoE", "GraniteMoe", {**GRANITE, "num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 40},
         {"num_experts_per_tok": 3}, shards=2),
    case("Granite 3 MoE with a shared expert", "GraniteMoeShared",
         {**GRANITE, "num_local_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 24, "shared_intermediate_size": 40,
          "attention_bias": True, "tie_word_embeddings": False, "embedding_multiplier": 2.0}, {"num_experts_per_tok": 3}),
    case("Granite 4", "GraniteMoeHybrid",
         {**GRANITE4, "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 24,
          "position_embedding_type": "nope"}, {"num_experts_per_tok": 3}),
    case("Granite 4 without experts, with its options", "GraniteMoeHybrid",
         {**GRANITE4, "num_hidden_layers": 3, "layer_types": ["mamba", "attention", "mamba"], "num_local_experts": 0,
          "position_embedding_type": "rope", "attention_bias": True, "mamba_n_groups": 2, "mamba_d_conv": 3,
          "mamba_conv_bias": False, "mamba_proj_bias": True, "time_step_limit": [0.1, 0.7], "tie_word_embeddings": False},
         {"time_step_limit": [0.0, 100.0]}),
    case("LFM 2", "Lfm2", {**LFM2}, {"norm_eps": 0.5}),
    case("LFM 2 with its options", "Lfm2",
         {**LFM2, "num_hidden_layers": 3, "layer_types": None, "full_attn_idxs": [1], "conv_bias": True, "conv_L_cache": 4,
          "block_ff_dim": 64, "block_auto_adjust_ff_dim": False, "tie_word_embeddings": False}, {"full_attn_idxs": [1], "rope_theta": 50.0}),
    case("LFM 2 MoE", "Lfm2Moe",
         {**LFM2, "num_dense_layers": 1, "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 24,
          "use_expert_bias": True, "norm_topk_prob": True, "routed_scaling_factor": 1.0}, {"num_experts_per_tok": 2}),
    case("LFM 2 MoE with its options", "Lfm2Moe",
         {**LFM2, "num_hidden_layers": 3, "layer_types": ["full_attention", "conv", "full_attention"], "num_dense_layers": 0,
          "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 40, "use_expert_bias": False,
          "norm_topk_prob": False, "routed_scaling_factor": 1.5, "conv_bias": True}, {"norm_topk_prob": True},
         ("f32",)), # In bf16 rows go to other experts, the reference's own, too.
    case("Nemotron-H", "NemotronH", {**NEMOTRON, "hybrid_override_pattern": "M-*-"}, {"layer_norm_epsilon": 0.5}),
    case("Nemotron-H with its options", "NemotronH",
         {**NEMOTRON, "num_hidden_layers": None, "layers_block_type": ["mlp", "linear_attention", "full_attention", "linear_attention"],
          "mamba_num_heads": 6, "mamba_head_dim": 20, "n_groups": 3, "conv_kernel": 3, "use_conv_bias": False, "use_bias": True,
          "mlp_bias": True}, {"layer_norm_epsilon": 0.5}),
    case("Nemotron-H MoE", "NemotronH",
         {**NEMOTRON, "num_hidden_layers": 5, "hybrid_override_pattern": "MEM*E", "n_routed_experts": 8, "num_experts_per_tok": 3,
          "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 40, "n_shared_experts": 1, "norm_topk_prob": True,
          "routed_scaling_factor": 2.5, "n_group": 1, "topk_group": 1}, {"num_experts_per_tok": 2}),
]


NOT_NULL = ("head_dim", "global_head_dim", "intermediate_size", "layer_types", "num_hidden_layers") # None: the file does not mention it.
TABLES = ("embed_tokens.weight", "embed_tokens_per_layer.weight", "embed_positions.weight", "embed_in.weight", "wte.weight",
          "wpe.weight", "embeddings.weight")


def scale_of(name, shape, config):
    """Every part must matter: queries meet some keys, norms and biases differ from one and zero."""
    if name.endswith("bias"):
        return 0.5, 0.0
    if name.endswith(("layer_scalar", "router.scale", "per_expert_scale")):
        return 0.3, 0.9
    if config["model_type"] == "gemma4_text" and name.endswith("q_norm.weight"):
        return 0.1, 0.3 # Scores have no other scale.
    if "norm" in name or ".ln_" in name:
        plus_one = config["model_type"] in ("gemma2", "gemma3_text") or "Qwen3_5" in config["architectures"][0]
        return 0.4, 0.0 if plus_one and ".linear_attn." not in name else 1.0
    if name.endswith(("A_log", "dt_bias")):
        return 0.5, 0.0
    if name.endswith(("mamba.D", "mixer.D")):
        return 0.5, 1.0
    if "conv1d" in name or "conv.conv" in name:
        return 0.6, 0.0
    if "sinks" in name:
        return 2.0, 0.0
    if name.endswith(TABLES):
        return (0.15 if config["tie_word_embeddings"] else 1.0), 0.0
    queries = ("q_proj", "k_proj", "qkv_proj", "c_attn", "query_key_value")
    gain = 2.2 if any(part in name for part in queries) else 60 if "router.proj" in name else 1.7
    turned = config["model_type"] == "gpt2" and ".h." in name # These are [inputs, outputs].
    inputs = shape[1] if len(shape) == 3 and config["model_type"] == "gpt_oss" else shape[0 if turned else -1] # gpt-oss's experts are [experts, inputs, outputs]
    return round(gain / math.sqrt(inputs), 4), 0.0


def as_stored(name, shape, config):
    """The tensors of a file that a model's tensor is made of: one for each expert, under the names of its family."""
    mixtral = config["model_type"] == "mixtral"
    if config["model_type"].startswith("granitemoe"):
        for own, stored in (("experts.gate_up_proj", "input_linear.weight"), ("experts.down_proj", "output_linear.weight"),
                            ("router.weight", "router.layer.weight")):
            name = name.replace("block_sparse_moe." + own, "block_sparse_moe." + stored)
    if config["model_type"] == "gpt_neox":
        name = name.replace("lm_head.", "embed_out.")
    if mixtral:
        name = name.replace(".mlp.", ".block_sparse_moe.")
    if config["model_type"] == "nemotron_h":
        name = name.replace("model.", "backbone.", 1)
    if ".experts." not in name or config["model_type"] in ("gpt_oss", "gemma4_text"):
        return [[name, shape]]
    parts = ("gate", "up") if "gate_up" in name else ("up",) if "up_proj" in name else ("down",)
    experts, rows, cols = shape
    called = {"gate": "w1", "up": "w3", "down": "w2"} if mixtral or config["model_type"] == "lfm2_moe" else {part: part + "_proj" for part in ("gate", "up", "down")}
    return [[f"{name.rsplit('.', 1)[0]}.{expert}.{called[part]}.weight", [rows // len(parts), cols]]
            for expert in range(experts) for part in parts]


def tensors_of(entry, config):
    """[name, shape, scale, offset] of each tensor in the file; tied tables are one, unless the case says otherwise."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**copy.deepcopy(config)))
    tied = config["tie_word_embeddings"]
    shapes = {name: list(t.shape) for name, t in model.state_dict().items()
              if (name in entry["tables"] if "tables" in entry and name.endswith(("embed_tokens.weight", "lm_head.weight"))
                  else not (tied and name == "lm_head.weight"))}
    return [[stored, size, *scale_of(stored, size, config)] for name, shape in shapes.items()
            for stored, size in as_stored(name, shape, config)]


def load(config, tensors, dtype, drawn={}):
    """drawn: the names that weights are a function of, where they are not the tensors' own."""
    to = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[dtype]
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/config.json", "w") as f:
            json.dump(config, f)
        save_file({name: weights(drawn.get(name, name), *rest).to(to) for name, *rest in tensors}, folder + "/model.safetensors", {"format": "pt"})
        model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                           output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    return model.eval()


def number(x, digits=7):
    return float(f"{float(x):.{digits}g}")


@torch.no_grad()
def run(model, prompt):
    logits = model(torch.tensor([prompt]), use_cache=False, **ALL).logits[0].double()
    logprobs = torch.log_softmax(logits, -1)
    tokens, gaps, ids = [], [], list(prompt)
    for _ in range(GREEDY):
        top = model(torch.tensor([ids]), use_cache=False, **ALL).logits[0, -1].topk(2)
        tokens.append(int(top.indices[0]))
        gaps.append(number(top.values[0] - top.values[1], 4))
        ids.append(tokens[-1])
    return logits, {"rows": [{"position": r, "logits": [number(x) for x in logits[r]]} for r in ROWS],
                    "logprobs": [number(logprobs[i, t]) for i, t in enumerate(prompt[1:])], "greedy": tokens, "gaps": gaps}


def main():
    random = np.random.default_rng(4)
    out = []
    for entry in CASES:
        config = {k: v for k, v in entry["config"].items() if k not in NOT_NULL or v}
        tensors = tensors_of(entry, config)
        prompt = [int(i) for i in random.integers(3, config["vocab_size"], PROMPT)]
        results = {}
        for dtype in entry["dtypes"]:
            logits, results[dtype] = run(load(config, tensors, dtype), prompt)
        changed = load({**config, **entry["change"]}, tensors, entry["dtypes"][-1])
        other = changed(torch.tensor([prompt]), use_cache=False, **ALL).logits[0].double().detach()
        effect = min(float((logits - other)[r].norm() / logits[r].norm()) for r in ROWS[-2:])
        assert effect > 0.02, (entry["name"], effect)
        out.append({"name": entry["name"], "config": config, "shards": entry.get("shards", 1), "tensors": tensors,
                    "prompt": prompt, "results": results})
        print(f"{entry['name']}: {sum(math.prod(t[1]) for t in tensors)} parameters, rms "
              f"{logits.pow(2).mean().sqrt():.3g}, a change shows by {effect:.2g}, smallest gap {min(results['f32']['gaps'])}")
    text = "[" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in out) + "]\n"
    if "--check" in sys.argv:
        return check(json.loads(text), json.load(open(FILE)))
    with open(FILE, "w") as f:
        f.write(text)


def check(fresh, kept):
    """The file is what this machine computes, but for the order of its sums."""
    for a, b in zip(fresh, kept, strict=True):
        assert all(a[key] == b[key] for key in a if key != "results"), a["name"] + " is another case"
        for dtype, result in a["results"].items():
            for x, y in zip(result["rows"], b["results"][dtype]["rows"], strict=True):
                x, y = np.array(x["logits"]), np.array(y["logits"])
                assert np.sqrt(((x - y) ** 2).mean() / (y ** 2).mean()) < 1e-5, (a["name"], dtype)
    print(f"{len(fresh)} checkpoints are as {FILE} says")


if __name__ == "__main__":
    main()
