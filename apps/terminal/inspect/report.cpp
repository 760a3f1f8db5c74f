#include "apps/terminal/inspect/report.hpp"

#include "apps/console/output.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value_from.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>

namespace paceline::apps {
namespace {

boost::json::object pieces_json(const text::Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  boost::json::object pieces;
  for (const TokenId id : ids)
    pieces[std::to_string(id)] = tokenizer.piece(id);
  return pieces;
}

std::string sampling_text(const sampling::Warping& w) {
  return w.greedy() ? "greedy"
                    : fmt::format("temperature {}, top-k {}, top-p {}, min-p {}", w.temperature,
                                  w.top_k, w.top_p, w.min_p);
}

/// Returns the kind of chat template. A checkpoint without a template of its own has the plain
/// format, which names what ends an answer.
const char* chat_kind(const Checkpoint& c) {
  if (!c.chat)
    return "broken";
  return c.chat->stops().empty() ? "own" : "plain";
}

std::string chat_text(const Checkpoint& c) {
  if (!c.chat)
    return "cannot be used: " + c.chat.error().message + "; give another with --chat-template";
  return c.chat->stops().empty() ? "its own" : "none: the plain format stands in for it";
}

std::string special_text(const Checkpoint& c) {
  constexpr std::size_t shown = 8; // Some vocabularies reserve hundreds.
  const std::vector<TokenId> ids = c.tokenizer->special_ids();
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(ids.size(), shown); ++i)
    texts.push_back(fmt::format("{} {}", ids[i], c.tokenizer->piece(ids[i])));
  if (ids.size() > shown)
    texts.push_back(fmt::format("and {} more", ids.size() - shown));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

std::string context_text(const models::ModelConfig& m) {
  return fmt::format("{} tokens", m.context) +
         (m.window() > 0 ? fmt::format(", of which each sees {}", m.window()) : "");
}

std::string vocabulary_text(const Checkpoint& c) {
  const int known = c.tokenizer->vocabulary();
  return fmt::format("{} ids, of which the tokenizer has {}", c.config.vocabulary, known) +
         (known < c.config.vocabulary ? "; no other is ever drawn" : "");
}

std::string vocabularies_text(const text::VocabularyMap* map) {
  if (!map)
    return "one vocabulary";
  return fmt::format("two vocabularies, mapped by bytes: the draft has {:.1f} % of the target's "
                     "tokens ({} of {}), and says no others",
                     100 * map->share(), map->shared(), map->known());
}

} // namespace

boost::json::object checkpoint_json(const Checkpoint& c) {
  boost::json::object bytes(c.bytes.begin(), c.bytes.end());
  boost::json::object object{
      {"name", c.name},
      {"folder", c.folder},
      {"architecture", c.config.architecture},
      {"parameters", c.parameters},
      {"dtypes", boost::json::array(c.dtypes.begin(), c.dtypes.end())},
      {"weight_bytes", std::move(bytes)},
      {"kv_cache_dtype", gpu::to_string(c.cached)},
      {"kv_bytes_per_token", c.kv_bytes_per_token()},
      {"state_bytes", c.state_bytes()},
      {"layers", c.config.layers},
      {"hidden", c.config.hidden},
      {"heads", c.config.heads},
      {"kv_heads", c.config.kv_heads},
      {"head_dim", c.config.head_dim},
      {"ffn", c.config.ffn},
      {"max_model_len", c.config.context},
      {"sliding_window", c.config.window()},
      {"vocabulary", c.config.vocabulary},
      {"tokenizer_vocabulary", c.tokenizer->vocabulary()},
      {"special_tokens", pieces_json(*c.tokenizer, c.tokenizer->special_ids())},
      {"end_of_text", ids_json(c.defaults.end_of_text)},
      {"not_obeyed", boost::json::value_from(c.defaults.not_obeyed)},

      {"chat_template", chat_kind(c)}};
  if (const auto& mixture = c.config.mixture) {
    object["active_parameters"] = c.active_parameters();
    object["experts"] = {{"layers", c.config.mixtures()},
                         {"count", mixture->experts},
                         {"per_token", mixture->top_k},
                         {"ffn", mixture->ffn},
                         {"shared_ffn", mixture->shared_ffn}};
  }
  if (!c.description.empty())
    object["description"] = c.description;
  if (!c.missing.empty())
    object["missing"] = boost::json::value_from(c.missing);
  if (c.decoded_bytes > 0 || c.dtypes.size() > 1) {
    object["formats"] = boost::json::value_from(c.formats);
    object["loaded_bytes"] = c.loaded_bytes;
  }
  if (!c.chat)
    object["chat_template_error"] = c.chat.error().message;
  if (c.format)
    object["quantized"] = {{"weights", to_string(*c.format)}, {"weight_bytes", c.loaded_bytes}};
  if (c.shared_bytes > 0)
    object["shared_bytes"] = c.shared_bytes;
  if (!c.head_layout.empty())
    object["head"] = {{"layout", c.head_layout},
                      {"target_layers", boost::json::value_from(c.target_layers)},
                      {"says", c.config.logits()}};
  return object;
}

boost::json::object pair_json(const Pair& pair) {
  boost::json::object object{{"compatible", pair.map.has_value()},
                             {"bytes", pair.bytes},
                             {"draft_context", pair.draft_context}};
  if (!pair.map) {
    object["reason"] = pair.map.error().text();
  } else {
    const auto* map = pair.map->get();
    object["vocabulary"] = map ? "mapped" : "same";
    object["shared_tokens"] = map ? map->share() : 1.0;
  }
  return object;
}

namespace {

std::string parameters_text(const Checkpoint& c) {
  return fmt::format("{:.2f} M, ", double(c.parameters) / 1e6) +
         (c.config.mixture ? fmt::format("of which a token passes {:.2f} M, ",
                                         double(c.active_parameters()) / 1e6)
                           : "");
}

std::string feed_forward_text(const models::ModelConfig& m) {
  std::string text = m.mixtures() < m.layers ? std::to_string(m.ffn) : "";
  if (m.mixture)
    text += fmt::format(
        "{}{} experts of {} in {} layers, of which a token goes to {}{}",
        text.empty() ? "" : ", and ", m.mixture->experts, m.mixture->ffn, m.mixtures(),
        m.mixture->top_k,
        m.mixture->shared_ffn > 0 ? fmt::format(", and to one of {}", m.mixture->shared_ffn) : "");
  return text;
}

/// Returns the line about a head: what it reads of the target, and what it says. Empty: it is none.
std::string head_text(const Checkpoint& c) {
  if (c.head_layout.empty())
    return "";
  std::string reads =
      c.config.reads_beside(0)
          ? fmt::format("what goes into layers {} of the target", fmt::join(c.target_layers, ", "))
          : "the target's rows behind the final norm";
  if (!c.key_layers.empty())
    reads += fmt::format(" and keys of its layers {}", fmt::join(c.key_layers, ", "));
  const std::string writes = c.config.drafts_blocks()
                                 ? fmt::format("{} tokens at once, ", c.config.fusion->block - 1)
                                 : "";
  return fmt::format("  head             {} layout; reads {}, and says {}{} of its ids\n",
                     c.head_layout, reads, writes, c.config.logits());
}

/// Returns how a part is stored, if a checkpoint has several formats.
std::string formats_text(const Checkpoint& c, const std::string& part) {
  const auto at = c.formats.find(part);
  return c.dtypes.size() < 2 || at == c.formats.end()
             ? ""
             : fmt::format("  {}", fmt::join(at->second, ", "));
}

/// Says how many layers are recurrent, and what a sequence's state takes.
std::string state_text(const Checkpoint& c) {
  const int layers = c.config.recurrent_in(0, c.config.layers);
  return layers == 0 ? ""
                     : fmt::format("  state            {} a sequence, of {} recurrent layers\n",
                                   human_bytes(c.state_bytes()), layers);
}

std::string missing_text(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 4;
  if (names.empty())
    return "";
  const std::span first(names.data(), std::min(names.size(), shown));
  return fmt::format("  missing          {}{}\n", fmt::join(first, ", "),
                     names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "");
}

/// Returns a line of its own, if there is something to tell.
std::string not_obeyed_text(const models::GenerationDefaults& defaults) {
  return defaults.not_obeyed.empty()
             ? ""
             : fmt::format("  not obeyed       {}\n", fmt::join(defaults.not_obeyed, ", "));
}

} // namespace

std::string checkpoint_text(const Checkpoint& c, const std::string& role) {
  const models::ModelConfig& m = c.config;
  std::string parts;
  for (const auto& [part, bytes] : c.bytes)
    parts += fmt::format("    {:<14} {:>12}{}\n", part, human_bytes(bytes), formats_text(c, part));
  if (c.decoded_bytes > 0)
    parts += fmt::format("    {:<14} {:>12}  blocks are decoded to {} when they are loaded\n",
                         "in memory", human_bytes(c.loaded_bytes), gpu::to_string(c.decoded_to));
  if (c.format)
    parts += fmt::format("    {:<14} {:>12}\n", fmt::format("as {}", to_string(*c.format)),
                         human_bytes(c.loaded_bytes));
  const std::string head = head_text(c);
  const std::string about =
      c.description.empty() ? "" : fmt::format("  file             {}\n", c.description);
  if (c.shared_bytes > 0)
    parts += fmt::format("    {:<14} {:>12}\n", "the target's", human_bytes(c.shared_bytes));
  return fmt::format(
      "{}: {}\n  folder           {}\n{}  architecture     {}\n{}"
      "  parameters       {}{}\n  shape            {} layers, width {}, "
      "{} heads ({} for keys and values) of {}, feed-forward {}\n"
      "  context          {}\n  vocabulary       {}\n"
      "  special tokens   {}\n  chat template    {}\n  end of text      {}\n"
      "  sampling         {}\n{}{}"
      "  weights          {}\n{}  KV cache         {} a token, {} a full context, in {}\n{}",
      role, c.name, c.folder, about, m.architecture, head, parameters_text(c),
      fmt::join(c.dtypes, ", "), m.layers, m.hidden, m.heads, m.kv_heads, m.head_dim,
      feed_forward_text(m), context_text(m), vocabulary_text(c), special_text(c), chat_text(c),
      fmt::join(c.defaults.end_of_text, ", "), sampling_text(c.defaults.warping),
      not_obeyed_text(c.defaults), missing_text(c.missing), human_bytes(c.weight_bytes()), parts,
      human_bytes(c.kv_bytes_per_token()),
      human_bytes(c.kv_bytes_per_token() * std::uint64_t(m.context)), gpu::to_string(c.cached),
      state_text(c));
}

std::string pair_text(const Pair& pair) {
  if (!pair.map)
    return "pair: cannot work together: " + pair.map.error().text() + "\n";
  std::string text = fmt::format("pair: {}; they can work together\n"
                                 "  memory           {}, one full context included\n",
                                 vocabularies_text(pair.map->get()), human_bytes(pair.bytes));
  if (pair.draft_context > 0)
    text += fmt::format("  draft's context  {} tokens; beyond, the target goes on alone\n",
                        pair.draft_context);
  return text;
}

} // namespace paceline::apps
