#include "models/checkpoint/folder_as_gguf.hpp"

#include "models/checkpoint/folder.hpp"
#include "models/checkpoint/folder_tensors.hpp"
#include "models/checkpoint/gguf_names.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <string_view>
#include <utility>

namespace paceline::models {
namespace {

constexpr std::string_view weight_ending = ".weight";

/// Roles of the tensors that a block may have, but for those of experts.
constexpr TensorRole block_roles[] = {
    TensorRole::attention_norm,
    TensorRole::query,
    TensorRole::key,
    TensorRole::value,
    TensorRole::query_key_value,
    TensorRole::query_norm,
    TensorRole::key_norm,
    TensorRole::sinks,
    TensorRole::mixer_in,
    TensorRole::mixer_out,
    TensorRole::kernel,
    TensorRole::speed,
    TensorRole::offset,
    TensorRole::skip,
    TensorRole::recurrence_norm,
    TensorRole::delta_in,
    TensorRole::delta_gate,
    TensorRole::delta_strength,
    TensorRole::delta_rate,
    TensorRole::delta_rates,
    TensorRole::attention_out,
    TensorRole::attention_post_norm,
    TensorRole::ffn_norm,
    TensorRole::router,
    TensorRole::router_norm,
    TensorRole::expert_scales,
    TensorRole::expert_norm,
    TensorRole::expert_post_norm,
    TensorRole::shared_post_norm,
    TensorRole::choice_bias,
    TensorRole::shared_gate,
    TensorRole::ffn_post_norm,
    TensorRole::layer_scale,
    TensorRole::input_gate,
    TensorRole::input_out,
    TensorRole::input_post_norm,
};

constexpr TensorRole ffn_roles[] = {TensorRole::gate, TensorRole::up, TensorRole::gate_up,
                                    TensorRole::down};

/// Returns whether it is a norm that a family may store as its difference to one.
bool is_norm(TensorRole role) {
  switch (role) {
  case TensorRole::final_norm:
  case TensorRole::attention_norm:
  case TensorRole::attention_post_norm:
  case TensorRole::ffn_norm:
  case TensorRole::ffn_post_norm:
  case TensorRole::query_norm:
  case TensorRole::key_norm: return true;
  default: return false;
  }
}

/// Returns the numbers first, first + step, ...: `count` of them.
std::vector<int> every(int first, int step, int count) {
  std::vector<int> out(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    out[std::size_t(i)] = first + step * i;
  return out;
}

/// Returns where the items of value heads lie now, of which a file has those apart that share a key
/// head. before: items before them, which stay. item: items of a head.
std::vector<int> heads_apart(const gpu::Recurrence& rule, int before, int item) {
  std::vector<int> out = every(0, 1, before);
  const int each = rule.value_heads / rule.key_heads;
  for (int i = 0; i < each; ++i)
    for (int key_head = 0; key_head < rule.key_heads; ++key_head)
      for (int at = 0; at < item; ++at)
        out.push_back(before + (key_head * each + i) * item + at);
  return out;
}

/// Returns the shape that a GGUF has in place of a folder's. The norm behind a sum becomes a row
/// for each key head. What these do not divide keeps its numbers, and is found to be too large.
std::vector<std::int64_t> shape_in_gguf(TensorRole role, std::vector<std::int64_t> shape,
                                        const ModelConfig& config) {
  const bool sums = config.recurrence && config.recurrence->sums();
  if (role == TensorRole::kernel && shape.size() == 3)
    shape.erase(shape.begin() + 1);
  if (role == TensorRole::shared_gate && shape.size() == 2)
    shape.erase(shape.begin());
  if (sums && (role == TensorRole::speed || role == TensorRole::skip))
    shape.push_back(1);
  if (sums && role == TensorRole::recurrence_norm) {
    const std::int64_t groups = config.recurrence->rule.key_heads;
    if (shape.front() % groups == 0)
      shape.front() /= groups;
    shape.insert(shape.begin(), groups);
  }
  return shape;
}

/// Gives a folder's tensors the names, shapes and orders that they have in a GGUF file.
class FolderAsGguf {
public:
  FolderAsGguf(const std::string& folder, const ModelConfig& config,
               const GgufArchitecture& architecture)
      : folder_(folder), config_(config), architecture_(architecture),
        family_(family_of(config.architecture)), names_{architecture.ffn_norm,
                                                        architecture.shared_expert,
                                                        config.convolution.has_value()} {}

  Result<GgufContents> read() {
    auto files = TensorFiles::open(folder_);
    if (!files)
      return tl::unexpected(files.error());
    files_ = std::make_shared<TensorFiles>(std::move(*files));
    out_.files.push_back(files_);
    auto source = FolderSource(folder_).tensors(config_);
    if (!source)
      return tl::unexpected(source.error());
    source_ = std::move(*source);
    add_tables();
    for (const TensorRole role :
         {TensorRole::positions, TensorRole::final_norm, TensorRole::input_table,
          TensorRole::input_projection, TensorRole::input_norm})
      add({role});
    for (int block = 0; block < config_.layers; ++block)
      add_block(block);
    return check_all_taken();
  }

private:
  /// Adds the embedding, and the head if it is another matrix. Of tied ones a folder may have
  /// either, or both.
  void add_tables() {
    const TensorKey embedding{TensorRole::embedding};
    const TensorKey head{TensorRole::head};
    const bool has_embedding = source_->has(TensorRole::embedding);
    add_layer(source_->name(has_embedding ? embedding : head), names_.layer(embedding), embedding);
    if (source_->same(embedding, head))
      taken_.insert(source_->name(head));
    else if (has_embedding)
      add(head);
  }

  void add_block(int block) {
    for (const TensorRole role : block_roles)
      if (source_->has(role) && !taken_.contains(source_->name({role, block})))
        add({role, block}); // Nemotron-H has one norm for a mixer or a feed-forward.
    if (source_->has(TensorRole::delta_joined))
      add_joined({TensorRole::delta_joined, block});
    const bool mixes = config_.mixture_in(block) != nullptr;
    for (const TensorRole role : ffn_roles)
      if (source_->has(role))
        add_ffn({role, block, mixes ? shared_expert : -1});
    if (mixes)
      add_experts(block);
  }

  /// Adds a layer of a dense feed-forward, or of the shared expert. Of fused gates and ups files
  /// have two tensors, if they ever have them apart.
  void add_ffn(TensorKey key) {
    const TensorEntry* entry = plain(source_->name(key));
    if (key.role != TensorRole::gate_up || *family_.tensors.expert_gate_up == '\0' || !entry)
      return add(key);
    const auto rows = int(entry->shape.front()) / 2;
    for (const TensorRole role : {TensorRole::gate, TensorRole::up}) {
      const std::string name = names_.tensor({role, key.block, key.expert});
      if (PlacedTensor* half = add_stored(source_->name(key), name)) {
        half->shape.front() = rows;
        half->rows = every(role == TensorRole::up ? rows : 0, 1, rows);
      }
    }
  }

  /// Adds a layer's weight and bias, as far as the folder has them.
  void add(TensorKey key) { add_layer(source_->name(key), names_.layer(key), key); }

  void add_layer(const std::string& own, const std::string& layer, TensorKey key) {
    if (PlacedTensor* tensor = add_stored(own, layer + ending_in_gguf(key.role))) {
      tensor->shape = shape_in_gguf(key.role, tensor->shape, config_);
      if (family_.tensors.transposed && !is_outside_blocks(key.role) && tensor->shape.size() == 2) {
        tensor->transposed = true;
        std::swap(tensor->shape[0], tensor->shape[1]);
      }
      set_order(*tensor, key.role);
      if (config_.norms_plus_one && is_norm(key.role))
        tensor->change = NumberChange::plus_one;
      if (key.role == TensorRole::speed)
        tensor->change = NumberChange::speed;
    }
    if (!own.ends_with(weight_ending))
      return;
    const std::string base = own.substr(0, own.size() - weight_ending.size());
    if (PlacedTensor* bias = add_stored(base + ".bias", layer + ".bias"))
      set_order(*bias, key.role);
  }

  /// Returns a tensor of plain numbers in rows; null: there is none of this name, and one without
  /// numbers may have any shape.
  const TensorEntry* plain(const std::string& own) const {
    const TensorEntry* entry = files_->find(own);
    const bool known = entry && dtype_of(entry->type);
    return known && !entry->shape.empty() && !entry->bytes.empty() ? entry : nullptr;
  }

  /// Adds a tensor of plain numbers. Returns null if there is none of this name.
  PlacedTensor* add_stored(const std::string& own, std::string name) {
    const TensorEntry* entry = plain(own);
    if (!entry)
      return nullptr;
    taken_.insert(own);
    return &out_.tensors.emplace_back(
        PlacedTensor{std::move(name), entry->shape, *dtype_of(entry->type), {entry->bytes}});
  }

  /// Puts the rows where files have them, out of the folder's order by way of ours.
  void set_order(PlacedTensor& tensor, TensorRole role) const {
    const RowOrder theirs = row_order(role, config_, {.neighbours = architecture_.neighbours});
    const RowOrder own = row_order(role, config_, family_.tensors.heads);
    if (theirs.is_own() && own.is_own())
      return set_head_order(tensor, role);
    const auto rows = tensor.shape.front();
    if (rows % theirs.head != 0 || (own.parts > 1 && rows != 3 * own.third))
      return tensor.rows.push_back(0); // It is found not to be whole.
    tensor.rows.resize(std::size_t(rows));
    for (int row = 0; row < int(rows); ++row)
      tensor.rows[std::size_t(theirs.in_file(row))] = own.in_file(row);
  }

  /// Puts the value heads of a delta rule where files have them (gpu::Recurrence::apart).
  void set_head_order(PlacedTensor& tensor, TensorRole role) const {
    if (!config_.recurrence || config_.recurrence->sums() || family_.tensors.joined_heads)
      return;
    const gpu::Recurrence& rule = config_.recurrence->rule;
    switch (role) {
    case TensorRole::kernel:
    case TensorRole::delta_in:
      tensor.rows = heads_apart(rule, 2 * rule.keys(), rule.value_dim);
      break;
    case TensorRole::delta_gate: tensor.rows = heads_apart(rule, 0, rule.value_dim); break;
    case TensorRole::delta_strength:
    case TensorRole::delta_rate:
    case TensorRole::speed:
    case TensorRole::offset: tensor.rows = heads_apart(rule, 0, 1); break;
    case TensorRole::mixer_out: tensor.columns = heads_apart(rule, 0, rule.value_dim); break;
    default: break;
    }
  }

  /// Adds the matrix of each key head's queries, keys, values and gates as two: all queries, keys
  /// and values, and all gates.
  void add_joined(TensorKey key) {
    const gpu::Recurrence& rule = config_.recurrence->rule;
    const int values = rule.values() / rule.key_heads;
    const int head = 2 * rule.key_dim + 2 * values;
    const auto part = [&](std::vector<int>& rows, int before, int count) {
      for (int i = 0; i < rule.key_heads; ++i)
        for (int row = 0; row < count; ++row)
          rows.push_back(i * head + before + row);
    };
    std::vector<int> in;
    part(in, 0, rule.key_dim);
    part(in, rule.key_dim, rule.key_dim);
    part(in, 2 * rule.key_dim, values);
    std::vector<int> gates;
    part(gates, 2 * rule.key_dim + values, values);
    for (const auto& [role, rows] :
         {std::pair(TensorRole::delta_in, &in), {TensorRole::delta_gate, &gates}})
      if (PlacedTensor* tensor = add_stored(source_->name(key), names_.tensor({role, key.block}))) {
        const auto count = std::int64_t(rows->size());
        if (reshape(*tensor, {rule.key_heads * head, config_.hidden}, {count, config_.hidden}))
          tensor->rows = std::move(*rows);
      }
  }

  void add_experts(int block) {
    for (const TensorRole role : {TensorRole::gate, TensorRole::up, TensorRole::down}) {
      const TensorKey first{role, block, 0};
      const std::string own = source_->name(first);
      if (own == source_->name({role, block, 1})) // One tensor has all of them.
        add_stack(own, first);
      else
        add_each(first);
    }
  }

  /// Adds the matrices of all experts, which have tensors of their own, as one.
  void add_each(TensorKey key) {
    PlacedTensor tensor{names_.tensor(key), {}, gpu::DType::f32, {}};
    for (int expert = 0; expert < config_.mixture->experts; ++expert) {
      const std::string own = source_->name({key.role, key.block, expert});
      const TensorEntry* entry = files_->find(own);
      const auto dtype = entry ? dtype_of(entry->type) : std::nullopt;
      const bool alike = expert == 0 || (dtype && GgufType(*dtype) == tensor.type &&
                                         std::ranges::equal(entry->shape, tensor.shape));
      if (!dtype || entry->shape.size() != 2 || !alike)
        return; // The tensors that are left over are named.
      taken_.insert(own);
      tensor.type = *dtype;
      tensor.shape = entry->shape;
      tensor.parts.push_back(entry->bytes);
    }
    tensor.shape.insert(tensor.shape.begin(), config_.mixture->experts);
    out_.tensors.push_back(std::move(tensor));
  }

  /// Adds gates, ups or downs of a tensor of all experts.
  void add_stack(const std::string& own, TensorKey key) {
    if (config_.mixture->apart && key.role != TensorRole::down) { // Gates and ups stay together.
      if (key.role == TensorRole::gate)
        add_stored(own, fmt::format("blk.{}.ffn_gate_up_exps.weight", key.block));
      return;
    }
    const bool in_turn = family_.tensors.order == ExpertOrder::in_turn;
    const int experts = config_.mixture->experts;
    const bool down = key.role == TensorRole::down;
    const int outputs = down ? config_.hidden : config_.mixture->ffn;
    const int inputs = down ? config_.mixture->ffn : config_.hidden;
    const int all_outputs = down ? outputs : 2 * outputs;
    PlacedTensor* tensor = add_stored(own, names_.tensor(key));
    if (!tensor)
      tensor = add_blocks(own, names_.tensor(key));
    if (!tensor)
      return;
    if (in_turn && tensor->exponents.empty()) {
      const auto bytes = tensor->parts.front().size() / std::size_t(experts);
      const auto all = tensor->parts.front();
      tensor->parts.clear();
      for (int expert = 0; expert < experts; ++expert)
        tensor->parts.push_back(all.subspan(std::size_t(expert) * bytes, bytes));
      tensor->transposed = true;
    }
    if (reshape(*tensor, {experts, all_outputs, inputs}, {experts, outputs, inputs}))
      tensor->rows = stack_rows(key.role, outputs, in_turn);
    if (PlacedTensor* bias = add_stored(own + "_bias", names_.layer(key) + ".bias"))
      if (reshape(*bias, {experts, all_outputs}, {experts, outputs}))
        bias->rows = stack_rows(key.role, outputs, in_turn);
  }

  /// Gives a tensor that has the shape `now` the one that it has with some of its rows. Returns
  /// false if it is of another size: it keeps what it cannot have, and is refused in the end.
  static bool reshape(PlacedTensor& tensor, std::vector<std::int64_t> now,
                      std::vector<std::int64_t> then) {
    tensor.shape = std::move(now);
    if (!tensor.is_whole())
      return false;
    tensor.shape = std::move(then);
    return true;
  }

  /// Returns the rows of a stack that are gates, ups or downs of all experts; empty: all rows.
  std::vector<int> stack_rows(TensorRole role, int outputs, bool in_turn) const {
    std::vector<int> out;
    if (role == TensorRole::down)
      return out;
    const int first = role == TensorRole::gate ? 0 : in_turn ? 1 : outputs;
    for (int expert = 0; expert < config_.mixture->experts; ++expert) {
      const std::vector<int> own = every(2 * outputs * expert + first, in_turn ? 2 : 1, outputs);
      out.insert(out.end(), own.begin(), own.end());
    }
    return out;
  }

  /// Adds a stack of blocks, whose codes and exponents are tensors of their own.
  PlacedTensor* add_blocks(const std::string& own, std::string name) {
    const TensorEntry* codes = files_->find(own + "_blocks");
    const TensorEntry* exponents = files_->find(own + "_scales");
    if (!codes || !exponents || codes->type != StoredType::u8 || exponents->type != StoredType::u8)
      return nullptr;
    taken_.insert({own + "_blocks", own + "_scales"});
    PlacedTensor tensor{std::move(name), {}, gpu::GgufFormat::mxfp4, {codes->bytes}};
    tensor.exponents.push_back(exponents->bytes);
    return &out_.tensors.emplace_back(std::move(tensor));
  }

  Result<GgufContents> check_all_taken() {
    std::vector<std::string> ignored; // beginnings of names
    for (const char* other : names_in(*files_, family_).others)
      ignored.emplace_back(other);
    const std::string blocks = OuterNames::of(names_in(*files_, family_)).blocks;
    for (int block = 0; block < config_.draft_blocks; ++block)
      ignored.push_back(fmt::format("{}{}.", blocks, config_.layers + block));
    for (const TensorFiles::Stored& tensor : files_->tensors()) {
      const std::string& name = tensor.entry->name;
      const bool other = std::ranges::any_of(
          ignored, [&](const std::string& prefix) { return name.starts_with(prefix); });
      if (!taken_.contains(name) && !other && !is_computed(name))
        return fail(ErrorCode::unsupported,
                    fmt::format("{}: tensor {} has no place in a GGUF file of {}",
                                text::shown_path(folder_), text::shown(name), architecture_.name),
                    into_folder_hint);
    }
    for (const PlacedTensor& tensor : out_.tensors)
      if (!tensor.is_whole())
        return fail(ErrorCode::corrupt,
                    fmt::format("{}: what becomes {} is not of the size that config.json says",
                                text::shown_path(folder_), tensor.name),
                    "the checkpoint contradicts itself; download it again");
    return std::move(out_);
  }

  const std::string& folder_;
  const ModelConfig& config_;
  const GgufArchitecture& architecture_;
  const Family& family_;
  GgufNames names_;
  std::shared_ptr<TensorFiles> files_;
  std::unique_ptr<TensorSource> source_; ///< Knows what the folder calls a role's tensor.
  std::set<std::string, std::less<>> taken_;
  GgufContents out_;
};

} // namespace

Result<GgufContents> folder_as_gguf(const std::string& folder, const ModelConfig& config,
                                    const GgufArchitecture& architecture) {
  return FolderAsGguf(folder, config, architecture).read();
}

} // namespace paceline::models
