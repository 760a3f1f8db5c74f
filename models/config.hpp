// A model's configuration, and the defaults for its use.
#pragma once

#include "gpu/operations.hpp"
#include "models/quantization.hpp"
#include "paceline/error.hpp"
#include "paceline/request.hpp"
#include "sampling/limits.hpp"
#include "sampling/warp.hpp"
#include "text/json.hpp"

#include <boost/json/fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace paceline::models {

enum class QkNorm { none, per_head, full_width };

/// A rotation of queries and keys by position * frequency; cos and sin are multiplied by `factor`.
struct RopeConfig {
  std::vector<float> frequencies; ///< One frequency for each rotated pair.
  float factor = 1;
};

/// The part of a layer in which rows see those before them.
enum class Mixer {
  attention,
  recurrence,        ///< gpu::Recurrence, like the next with a state for each sequence.
  short_convolution, ///< gpu::ShortConvolution
  none,              ///< The layer is a feed-forward alone.
};

/// What a layer has of its own.
struct LayerConfig {
  int window = 0; ///< Positions that a row of attention sees; 0: all.
  int rope = 0;   ///< Index of ModelConfig::ropes; -1: positions are not encoded (NoPE).
  Mixer mixer = Mixer::attention;
  bool feeds = true; ///< It has a feed-forward behind its mixer.
  int kv_heads = 0;  ///< 0: the model's, as with the next two.
  int head_dim = 0;
  int ffn = 0;
  /// The earlier layer whose keys and values it reads, and so has none of its own (Brandon et al.
  /// 2024, section 3); -1: none.
  int keys_of = -1;
  bool keys_as_values = false; ///< Its values are its keys before their norm and rotation.
  /// Its keys and values are those of a layer of the model that a head is on (Joint::whole).
  bool keys_given = false;
  bool both_ways = false; ///< Rows of a block see those behind them, too (Joint::context).
};

/// A table of learned positions, one row for each, which is added to the embedding (Radford et al.
/// 2019).
struct PositionTable {
  int rows = 0;  ///< Rows as stored, of the positions and those before them.
  int first = 0; ///< The row of position 0.
};

/// Layers with Mixer::recurrence.
struct RecurrenceConfig {
  gpu::Recurrence rule;         ///< Without its constants.
  bool kernel_bias = false;     ///< The convolution adds biases.
  bool projection_bias = false; ///< The products before and behind it add biases.
  int norm_width = 0; ///< Numbers that the norm behind it takes together (gpu::GatedNorm).
  float norm_epsilon = 1e-6f;

  bool sums() const { return rule.update == gpu::StateUpdate::sum; } ///< Else it is `delta`.
  /// Returns the column of the gates of its values in what the product before it gives for a row:
  /// behind the channels and, with `sum`, the rates. With `delta` a product of their own gives
  /// these.
  int first_gate() const { return rule.channels() + (sums() ? rule.rates() : 0); }
  int outputs() const { return first_gate() + rule.values(); } ///< All that this product gives.
};

/// Layers with Mixer::short_convolution, whose channels are as many as a row's numbers.
struct ConvolutionConfig {
  int taps = 0;
  bool bias = false; ///< The convolution, and the products before and behind it, add biases.
};

/// Feed-forwards that are mixtures of experts (Shazeer et al. 2017; in a transformer Lepikhin et
/// al. 2020): a row goes to the `top_k` experts that its router scores highest. Beside them there
/// may be a dense feed-forward that takes every row (a shared expert; Dai et al. 2024,
/// section 3.2).
struct MixtureConfig {
  int experts = 0;
  int top_k = 0;
  int ffn = 0; ///< Width of each expert.
  gpu::RouterOptions router;
  bool choice_bias = false; ///< Experts are chosen by score and bias.
  bool biases = false;      ///< The router and all layers of the experts add biases.
  int shared_ffn = 0;       ///< Width of the shared expert; 0: there is none.
  bool shared_gate = false; ///< Its output is multiplied by the sigmoid of a score of its own.
  /// Router, experts and the shared expert read rows through norms of their own, and the outputs of
  /// the latter two are normalised before they are added up; a chosen expert's weight has a factor
  /// of the expert's (Gemma 4).
  bool apart = false;
  std::vector<bool> layers; ///< [layers]: whether a layer has a mixture; the others are dense.
};

/// How a head joins a token's embedding with the hidden states of another model.
enum class Joint {
  beside,  ///< Attention of its first block reads both (EAGLE-3: Li et al. 2025, section 3).
  before,  ///< A product makes one row of both, which a common block reads (multi-token prediction:
           ///< DeepSeek-AI 2024, section 2.2).
  whole,   ///< A product makes one row of both as they are, and blocks attend to keys and values of
           ///< the other model (Gemma 4's assistants, 2026).
  context, ///< The hidden states are keys and values of every layer, for a block of rows that
           ///< stands behind them (DFlash: Chen et al. 2026, block_drafter.hpp).
};

/// An output head that says a part of its ids for each row: those of the `used` clusters that the
/// row is nearest to. All clusters have as many ids.
struct ClusterConfig {
  int clusters = 0;
  int used = 0;
  /// The other model's ids in the order of clusters: of the head's outputs.
  std::vector<TokenId> order;
};

/// The further configuration of a head on another model (head.hpp), which reads, with its own
/// token's embedding, hidden states of that model at the position before, or at all before it.
struct FusionConfig {
  Joint joint = Joint::beside;
  int features = 0;   ///< Numbers that the other model leaves for a position.
  int vocabulary = 0; ///< Rows of the output head; the embedding has all of the other model's ids.
  bool norm_before_residual = false; ///< The block adds its output to the normalised input.
  bool goes_on_normed = false;       ///< The head goes on from its rows behind the final norm.
  /// How many norms the hidden states have that it reads with Joint::beside: one for all of them,
  /// or one for each of as many parts; 0: none.
  int tap_norms = 0;
  /// The width of a row of the other model, with Joint::whole. The head's own features are as wide;
  /// of `features` it is the first part, before keys and values.
  int width = 0;
  std::optional<ClusterConfig> clusters; ///< None: it says all ids.
  int block = 0;    ///< Joint::context: rows of a block, that of the token before it included.
  TokenId mask = 0; ///< The token that all others of its rows read.
};

/// The configuration of a transformer; every field was range-checked.
struct ModelConfig {
  std::string architecture; ///< "LlamaForCausalLM"
  int hidden = 0;
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int ffn = 0; ///< Width of a dense feed-forward.
  int vocabulary = 0;
  int context = 0;
  bool layer_norms = false; ///< Norms of rows are layer norms with biases; else RMS norms.
  float norm_epsilon = 1e-5f;
  bool tied_embedding = false;
  bool qkv_bias = false;
  bool attention_out_bias = false;
  bool ffn_bias = false;
  bool head_bias = false;
  bool norms_plus_one = false; ///< A norm's weight is stored as its difference to one.
  /// Attention and feed-forward of a layer read the same rows, and both add to these (Wang and
  /// Komatsuzaki 2021); else the feed-forward reads what attention has added to.
  bool parallel = false;
  QkNorm qk_norm = QkNorm::none;
  bool value_norm = false; ///< Each head's values are normalised, without a weight.
  /// The rows behind a layer are multiplied by a number of the layer's own.
  bool layer_scales = false;
  /// Numbers that each layer reads of a token, beside its row (per-layer embeddings, as in Gemma
  /// 3n, 2025); 0: none.
  int layer_inputs = 0;
  bool gated = true; ///< A dense feed-forward has gates; else only gating.activation is used.
  gpu::Gating gating;
  std::optional<PositionTable> positions; ///< None: no positions are learned.
  float embedding_scale = 1;
  float attention_scale = 1;
  float attention_soft_cap = 0; ///< Cap of attention scores; 0: none, as for logits.
  bool output_gate = false;     ///< Attention's output is scaled by sigmoids of gates of its own.
  bool sinks = false;           ///< Each head has an attention sink (gpu::AttentionOptions::sinks).
  float logit_scale = 1;        ///< Of logits, before their cap.
  float logit_soft_cap = 0;
  std::vector<RopeConfig> ropes;
  std::vector<LayerConfig> mixers;            ///< [layers]
  std::optional<RecurrenceConfig> recurrence; ///< None: no layer has that mixer, like the next.
  std::optional<ConvolutionConfig> convolution;
  /// Rows of a sequence that a pass may have to take back at most, which lie beside its state.
  int tentative = sampling::limits::window_max;
  StoredQuantization quantization;
  std::optional<MixtureConfig> mixture; ///< None: all layers are dense.
  /// Blocks that draft tokens (multi-token prediction) and are stored beside the layers. Only a
  /// head (mtp.hpp) reads them.
  int draft_blocks = 0;
  bool text_only = false;             ///< The model also sees or hears, which is not read.
  std::optional<FusionConfig> fusion; ///< None: it is not a head.
  /// Layers whose inputs stay in the pages, for a head to read; the number of layers stands for
  /// the rows behind the final norm.
  std::vector<int> taps;
  /// Layers whose keys and values stay there besides, behind these, as they are stored in the
  /// cache.
  std::vector<int> key_taps;

  /// Returns the rows of the output head.
  int logits() const { return fusion ? fusion->vocabulary : vocabulary; }
  /// Returns whether a block of a head reads a token beside what the other model has left.
  bool reads_beside(int layer) const {
    return fusion && fusion->joint == Joint::beside && layer == 0;
  }
  /// Returns whether a head reads the rows behind the last layer.
  bool taps_end() const { return !taps.empty() && taps.back() == layers; }
  /// Returns whether it drafts blocks, from which nothing goes on.
  bool drafts_blocks() const { return fusion && fusion->joint == Joint::context; }
  /// Returns how many numbers stay in the pages for each position.
  int features() const;
  /// Returns whether a head reads keys and values of the other model.
  bool reads_keys() const { return fusion && fusion->joint == Joint::whole; }
  /// Returns how many numbers a position's keys and values in a layer are.
  int key_values(int layer) const { return 2 * kv_heads_in(layer) * head_dim_in(layer); }
  int kv_heads_in(int layer) const { return own_or(kv_heads, &LayerConfig::kv_heads, layer); }
  int head_dim_in(int layer) const { return own_or(head_dim, &LayerConfig::head_dim, layer); }
  /// Returns the width of a layer's dense feed-forward; 0: it has none at all.
  int ffn_in(int layer) const { return feeds(layer) ? own_or(ffn, &LayerConfig::ffn, layer) : 0; }
  int widest_head() const;
  /// Returns whether a layer leaves keys and values of its own in the pages.
  bool stores(int layer) const { return attends(layer) && mixers[std::size_t(layer)].keys_of < 0; }
  /// Returns whether it makes them of its input.
  bool makes_keys(int layer) const {
    return stores(layer) && !mixers[std::size_t(layer)].keys_given;
  }
  /// Returns the last layer that all rows of a prompt come into, for those behind read nothing of
  /// other rows; `layers`: they come out of the last layer.
  int last_for_all() const;
  /// Returns the number of queries, keys and values of a row that a layer computes.
  int attention_outputs(int layer) const;
  /// Returns the bytes of a position's keys and values in the layers [first, first + count).
  std::size_t token_bytes(int first, int count, gpu::KvType type) const;
  /// Returns where a layer's keys and values lie, its own or those that it reads, in pages that
  /// begin with those of the layer `first`.
  gpu::KvLayout pages_of(int layer, int first, int page_tokens, gpu::KvType type) const;
  /// Returns the widest window of the layers' attention; 0: some layer sees all positions.
  int window() const;
  bool has_mixer(int layer) const { return mixers[std::size_t(layer)].mixer != Mixer::none; }
  bool feeds(int layer) const { return mixers[std::size_t(layer)].feeds; }
  bool attends(int layer) const { return mixers[std::size_t(layer)].mixer == Mixer::attention; }
  bool is_recurrent(int layer) const { return has_mixer(layer) && !attends(layer); }
  /// Returns the first layer with attention, or the last one if there is none.
  int first_attending() const;
  /// Returns how many of the layers [first, first + count) are recurrent.
  int recurrent_in(int first, int count) const;
  bool has_states() const { return recurrent_in(0, layers) > 0; }
  /// Return how many numbers the product before a layer's mixer gives for a row, and how many the
  /// one behind it reads.
  int mixer_outputs(int layer) const;
  int mixer_values(int layer) const;
  gpu::ShortConvolution short_convolution() const; ///< Without its constants.
  /// Returns how a sequence's states of these layers lie in memory.
  gpu::StateLayout states_of(int first, int count) const;
  /// Returns the mixture of a layer; null: the layer is dense.
  const MixtureConfig* mixture_in(int layer) const {
    return mixture && mixture->layers[std::size_t(layer)] ? &*mixture : nullptr;
  }
  /// Returns the number of layers that have a mixture.
  int mixtures() const;
  /// Returns the number of products of a feed-forward: of gate, up and down.
  int ffn_products() const { return gated ? 3 : 2; }
  /// Returns the units of a layer's feed-forward that a row passes through, and that there are, on
  /// average over the layers.
  double active_ffn() const;
  double stored_ffn() const;

private:
  int own_or(int all, int LayerConfig::*own, int layer) const {
    const int value = mixers[std::size_t(layer)].*own;
    return value > 0 ? value : all;
  }
};

/// Reads a config.json of the Hugging Face hub. Refuses by name what changes results and is not
/// known here. where: the file, for messages. spelled: the file's own names for the members, if it
/// is of another format and was translated.
Result<ModelConfig> read_config(const std::string& where, const boost::json::object& object,
                                const text::Spellings& spelled = {});

/// Defaults of sampling, and the tokens that end a text.
struct GenerationDefaults {
  sampling::Warping warping;        ///< Greedy unless do_sample says otherwise.
  std::vector<TokenId> end_of_text; ///< One token or several.
  /// Options that are set, would change the tokens, and are not obeyed.
  std::vector<std::string> not_obeyed;
};

} // namespace paceline::models
