#include "text/tokenizer/pre_tokenizer.hpp"

#include <fmt/format.h>
#include <optional>

namespace paceline::text {
namespace {

constexpr const char* gpt2_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

} // namespace

Result<PreTokenizer> PreTokenizer::read(const std::string& path, const boost::json::value* part) {
  PreTokenizer out;
  const auto add = [&](Part& step) { return out.read_step(step); };
  return Part::for_each(path, "pre_tokenizer", part, "pretokenizers", add).map([&] {
    return std::move(out);
  });
}

Result<void> PreTokenizer::read_step(Part& part) {
  const std::string& type = part.type();
  if (byte_level_)
    return part.refuse("what follows ByteLevel, that is,");
  if (type == "Split")
    return read_split(part);
  if (type == "ByteLevel")
    return read_byte_level(part);
  if (type == "Metaspace")
    return read_metaspace(part);
  if (type == "Digits") {
    const bool each = part.fields().boolean("individual_digits", false);
    steps_.emplace_back(Split{is_numeric, each ? Behavior::isolated : Behavior::contiguous});
    return {};
  }
  if (type == "WhitespaceSplit") {
    steps_.emplace_back(Split{is_white_space, Behavior::removed});
    return {};
  }
  return part.refuse();
}

Result<void> PreTokenizer::read_split(Part& part) {
  constexpr std::pair<std::string_view, Behavior> behaviors[] = {
      {"Removed", Behavior::removed},
      {"Isolated", Behavior::isolated},
      {"Contiguous", Behavior::contiguous},
      {"MergedWithPrevious", Behavior::merged_with_previous},
      {"MergedWithNext", Behavior::merged_with_next},
  };
  const std::string name = part.text("behavior");
  for (const auto& [known, behavior] : behaviors) {
    if (known != name)
      continue;
    auto pattern = read_pattern(part);
    if (!pattern)
      return tl::unexpected(pattern.error());
    steps_.emplace_back(
        Split{std::move(*pattern), behavior, part.fields().boolean("invert", false)});
    return {};
  }
  return part.refuse(fmt::format("the behavior {}", shown(name)));
}

Result<void> PreTokenizer::read_byte_level(Part& part) {
  byte_level_ = true;
  if (part.fields().boolean("add_prefix_space", true))
    steps_.emplace_back(PrefixSpace{});
  if (!part.fields().boolean("use_regex", true))
    return {};
  return Regex::compile(gpt2_expression, part.path()).map([&](Regex regex) {
    steps_.emplace_back(Split{std::move(regex), Behavior::isolated});
  });
}

Result<void> PreTokenizer::read_metaspace(Part& part) {
  using Prepend = Metaspace::Prepend;
  const std::string replacement = part.character("replacement");
  // Older files say only whether to prepend; newer ones also say where.
  const bool add = part.fields().boolean("add_prefix_space", true);
  const std::string scheme = part.fields().string("prepend_scheme", add ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    return part.refuse(fmt::format("the prepend_scheme {}", shown(scheme)));
  if (!add && scheme != "never")
    return part.wrong("has a prepend_scheme without add_prefix_space");
  steps_.emplace_back(Metaspace{replacement, scheme == "always"  ? Prepend::always
                                             : scheme == "first" ? Prepend::first
                                                                 : Prepend::never});
  if (part.fields().boolean("split", true))
    steps_.emplace_back(Split{replacement, Behavior::merged_with_next});
  return {};
}

void PreTokenizer::apply(Pieces& pieces) const {
  pieces.spans.clear();
  if (!pieces.text.characters.empty())
    pieces.spans.push_back({0, pieces.text.characters.size()});
  for (const Step& step : steps_)
    std::visit([&](const auto& what) { run(what, pieces); }, step);
}

namespace {

/// Joins matches, and what lies between them, as a behaviour wants.
template <class Behavior>
class Joiner {
public:
  Joiner(Behavior behavior, std::vector<Span>& out)
      : behavior_(behavior), out_(out), first_(out.size()) {}

  void add(Span span, bool match) {
    if (span.begin == span.end)
      return;
    if (joins(match))
      out_.back().end = span.end;
    else if (behavior_ != Behavior::removed || !match)
      out_.push_back(span);
    last_matched_ = match;
  }

private:
  bool joins(bool match) const {
    if (out_.size() == first_)
      return false;
    switch (behavior_) {
    case Behavior::contiguous: return match == last_matched_;
    case Behavior::merged_with_previous: return match && !last_matched_;
    case Behavior::merged_with_next: return !match && last_matched_;
    case Behavior::removed:
    case Behavior::isolated: break;
    }
    return false;
  }

  Behavior behavior_;
  std::vector<Span>& out_;
  std::size_t first_; ///< Index of this text's first piece.
  bool last_matched_ = false;
};

} // namespace

void PreTokenizer::run(const Split& split, Pieces& pieces) {
  auto& out = pieces.next_spans;
  out.clear();
  for (const Span& piece : pieces.spans) {
    Joiner<Behavior> joiner(split.behavior, out);
    std::size_t done = piece.begin;
    for_each_match(split.pattern, piece.of(pieces.text.characters), [&](Span match) {
      match.begin += piece.begin;
      match.end += piece.begin;
      joiner.add({done, match.begin}, split.invert);
      joiner.add(match, !split.invert);
      done = match.end;
    });
    joiner.add({done, piece.end}, split.invert);
  }
  std::swap(pieces.spans, out);
}

/// Rewrites every piece: change(piece, at_start, out) appends the new one.
template <class Change>
void PreTokenizer::rewrite(Pieces& pieces, Change change) {
  Text& text = pieces.text;
  std::string& out = pieces.next_characters;
  out.clear();
  text.at_start &= !pieces.spans.empty() && pieces.spans[0].begin == 0;
  bool at_start = text.at_start;
  for (Span& span : pieces.spans) {
    const std::size_t begin = out.size();
    change(span.of(text.characters), at_start, out);
    span = {begin, out.size()};
    at_start = false;
  }
  std::swap(text.characters, out);
}

void PreTokenizer::run(PrefixSpace, Pieces& pieces) {
  rewrite(pieces, [](std::string_view piece, bool, std::string& out) {
    if (piece[0] != ' ')
      out += ' ';
    out += piece;
  });
}

void PreTokenizer::run(const Metaspace& metaspace, Pieces& pieces) {
  using Prepend = Metaspace::Prepend;
  const std::string& mark = metaspace.replacement;
  rewrite(pieces, [&](std::string_view piece, bool at_start, std::string& out) {
    const bool prepend =
        metaspace.prepend == Prepend::always || (metaspace.prepend == Prepend::first && at_start);
    if (prepend && piece[0] != ' ' && !piece.starts_with(mark))
      out += mark;
    for (const char c : piece)
      c == ' ' ? out += mark : out += c;
  });
}

} // namespace paceline::text
