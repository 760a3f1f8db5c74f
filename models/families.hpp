// The families of models that are known, each an entry of a table.
#pragma once

#include "models/config.hpp"
#include "models/rope.hpp"
#include "text/json.hpp"

#include <span>
#include <vector>

namespace paceline::models {

/// How outputs of gate and up lie in a tensor of all experts, where a folder has one
/// (checkpoint/expert_stacks.hpp).
enum class ExpertOrder { below, in_turn };

/// How queries, keys and values of all heads lie in a folder's tensors.
struct HeadOrder {
  static constexpr int each_head = 0; ///< In `parts`: as many as heads.
  /// The number of parts of a fused tensor, each with queries, keys and values of its own heads.
  int parts = 1;
  bool values_first = false; ///< Values come before keys in each part.
  /// Rows that are rotated together are neighbours; here they are half of the rotated ones apart.
  bool neighbours = false;
};

/// Names of a block's tensors, below "model.layers.N."; an empty name: there is none.
struct BlockTensors {
  const char* attention_norm = "input_layernorm";
  const char* attention_post_norm = ""; ///< The norm of attention's output, before the residual.
  const char* ffn_norm = "post_attention_layernorm";
  const char* ffn_post_norm = "";
  const char* router = "mlp.gate";
  const char* experts = "mlp.experts."; ///< Before an expert's number and the names of its parts.
  const char* expert_gate = "gate_proj";
  const char* expert_up = "up_proj";
  const char* expert_down = "down_proj";
  const char* expert_gate_up = ""; ///< One tensor in place of gate and up, of a shared expert.
  /// The names of tensors of all experts, where a folder has such.
  const char* stacked_gate_up = "gate_up_proj";
  const char* stacked_down = "down_proj";
  const char* choice_bias = "mlp.gate.e_score_correction_bias"; ///< The whole name.
  const char* shared_expert = "mlp.shared_experts.";            ///< Before the names of its parts.
  const char* shared_gate = "mlp.shared_expert_gate";
  ExpertOrder order = ExpertOrder::below;
  const char* query = "self_attn.q_proj";
  const char* key = "self_attn.k_proj";
  const char* value = "self_attn.v_proj";
  const char* query_key_value = ""; ///< One tensor in place of these three.
  const char* query_norm = "self_attn.q_norm";
  const char* key_norm = "self_attn.k_norm";
  const char* recurrent = "linear_attn."; ///< Before the names of a recurrent layer's mixer.
  const char* kernel = "conv1d";          ///< Its convolution.
  HeadOrder heads = {};
  const char* attention_out = "self_attn.o_proj";
  const char* gate = "mlp.gate_proj";
  const char* up = "mlp.up_proj";
  const char* gate_up = ""; ///< One tensor in place of these two.
  const char* down = "mlp.down_proj";
  bool transposed = false; ///< Matrices of blocks are [inputs, outputs].
  /// Recurrent layers have delta_joined and delta_rates, in place of two tensors each.
  bool joined_heads = false;
};

/// Names of what is around the blocks.
struct ModelNames {
  const char* prefix = "model."; ///< Before the names of all tensors but the head's.
  const char* head = "lm_head";
  /// Prefixes of tensors that are not read: other parts of a model that does more than write.
  std::vector<const char*> others = {};
  const char* embedding = "embed_tokens";
  const char* positions = ""; ///< The table of learned positions.
  const char* blocks = "layers.";
  const char* final_norm = "norm";
};

/// A key of config.json that most families have, and a family's own name for it.
struct OwnKey {
  const char* key;
  const char* own;
};

/// Sizes that config.json may leave out; 0: it may not.
struct ShapeDefaults {
  int heads = 0;
  int kv_heads = 0; ///< 0: as many as heads.
  int vocabulary = 0;
  int context = 0;
  int ffn_times = 0; ///< A feed-forward is so many times as wide as a row.
};

/// Names of a block that drafts, by multi-token prediction (mtp.hpp), and of what it needs beside
/// it. An embedding or a head of its own may be missing: then it has the model's.
struct MtpTensors {
  const char* prefix; ///< Before all others; {} stands for the model's number of layers.
  const char* blocks; ///< Before a block's number; empty: the prefix has it.
  const char* fusion;
  const char* token_norm;
  const char* fusion_norm;
  const char* final_norm;
  const char* embedding;
  const char* head;
  bool goes_on_normed; ///< Same as FusionConfig::goes_on_normed.
};

/// What a family has that config.json does not say, or says in its own way. Most families differ
/// only in the fields other than `read`.
struct Family {
  const char* architecture = ""; ///< "architectures" in config.json
  /// "model_type" in config.json, which counts if "architectures" is missing.
  const char* model_type = "";
  const char* models = ""; ///< The models of this family, for people.
  /// The object in config.json that describes what writes, in a model that also sees or hears.
  const char* text_config = "";
  BlockTensors tensors = {};
  /// Versions of the program that writes such folders name differently: a folder has the first of
  /// these whose embedding it holds.
  std::vector<ModelNames> names = {ModelNames()};
  const MtpTensors* mtp = nullptr; ///< Null: its models bring no block that drafts.
  QkNorm qk_norm = QkNorm::none;
  bool norms_plus_one = false;
  /// A default, like `norm_epsilon`, for what config.json may leave out.
  bool tied_embedding = false;
  double norm_epsilon = 1e-6;
  RopeRules rope = {};
  /// A list of layers in config.json, as long as "num_hidden_layers", which is missing then.
  const char* layer_list = "";
  std::span<const OwnKey> keys = {}; ///< Those that the family calls otherwise.
  ShapeDefaults shape = {};
  int head_dim = 0; ///< 0: hidden size / heads
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
  /// Reads what only this family's config.json holds, after everything else; null: nothing.
  void (*read)(text::JsonFields&, ModelConfig&) = nullptr;
};

/// Returns those with recurrent layers, and those that they add to.
std::vector<Family> hybrid_families();
/// Returns a family whose folders are like another's, but for these.
Family like(Family other, const char* architecture, const char* model_type, const char* models,
            decltype(Family::read) read);
/// Returns the family of models that see, too: their folders have the text's configuration in an
/// object of its own, and other names.
Family also_sees(Family text, const char* architecture, const char* model_type, const char* models,
                 std::vector<ModelNames> names);

/// Returns null if the architecture is not known.
const Family* find_family(text::JsonFields& fields);
/// Returns the family of an architecture that is known.
const Family& family_of(const std::string& architecture);
std::span<const Family> known_families();

} // namespace paceline::models
