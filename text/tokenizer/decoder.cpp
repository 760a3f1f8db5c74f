#include "text/tokenizer/decoder.hpp"

#include "text/limits.hpp"
#include "text/tokenizer/vocabulary.hpp"

#include <charconv>
#include <fmt/format.h>

namespace paceline::text {

Result<Decoder> Decoder::read(const std::string& path, const boost::json::value* part) {
  Decoder out;
  if (!part || part->is_null())
    return fail(ErrorCode::unsupported, path + ": a tokenizer without decoder is not known",
                other_tokenizer_hint);
  const auto add = [&](Part& step) { return out.read_step(step); };
  return Part::for_each(path, "decoder", part, "decoders", add).map([&] { return std::move(out); });
}

Result<void> Decoder::read_step(Part& part) {
  const std::string& type = part.type();
  if (type == "Strip")
    return read_strip(part);
  if (type == "Fuse") {
    fused_ = true;
    return {};
  }
  if (fused_ || may_be_bytes_)
    return part.refuse("what follows Fuse, ByteFallback or ByteLevel, that is,");
  if (type == "ByteLevel") {
    steps_.emplace_back(ByteLevel{});
    may_be_bytes_ = true;
  } else if (type == "ByteFallback") {
    steps_.emplace_back(ByteFallback{});
    may_be_bytes_ = true;
  } else if (type == "Replace") {
    auto pattern = read_pattern(part);
    if (!pattern)
      return tl::unexpected(pattern.error());
    steps_.emplace_back(Replace{std::move(*pattern), part.text("content")});
  } else if (type == "Metaspace") {
    const bool add = part.fields().boolean("add_prefix_space", true);
    const std::string scheme = part.fields().string("prepend_scheme", add ? "always" : "never");
    steps_.emplace_back(Metaspace{part.character("replacement"), scheme != "never"});
  } else {
    return part.refuse();
  }
  return {};
}

Result<void> Decoder::read_strip(Part& part) {
  if (!fused_)
    return part.refuse("what comes before Fuse, that is,");
  if (part.fields().integer("stop", 0, limits::token_bytes_max, 0) != 0)
    return part.refuse("stop");
  if (strip_.count > 0)
    return part.refuse("a second one");
  strip_ = {part.character("content"),
            int(part.fields().integer("start", 0, limits::token_bytes_max, 0))};
  return {};
}

std::string Decoder::bytes(std::string_view piece, bool first) const {
  std::string out(piece);
  for (const Step& step : steps_)
    out = std::visit([&](const auto& what) { return run(what, std::move(out), first); }, step);
  return out;
}

std::string Decoder::run(ByteLevel, const std::string& piece, bool) {
  return spelled_bytes(piece).value_or(piece);
}

std::string Decoder::run(ByteFallback, std::string piece, bool) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || !piece.ends_with('>'))
    return piece;
  unsigned byte = 0;
  const char* end = piece.data() + 5;
  const auto read = std::from_chars(piece.data() + 3, end, byte, 16);
  return read.ec == std::errc{} && read.ptr == end ? std::string(1, char(byte)) : piece;
}

std::string Decoder::run(const Replace& replace, std::string piece, bool) {
  std::string out;
  std::size_t done = 0;
  for_each_match(replace.pattern, piece, [&](Span match) {
    out.append(piece, done, match.begin - done);
    out += replace.content;
    done = match.end;
  });
  return out.append(piece, done);
}

std::string Decoder::run(const Metaspace& metaspace, std::string piece, bool first) {
  const std::string blank = first && metaspace.prepended ? "" : " ";
  return run(Replace{metaspace.replacement, blank}, std::move(piece), first);
}

} // namespace paceline::text
