#include "text/tokenizer/normalizer.hpp"

namespace paceline::text {
Result<Normalizer> Normalizer::read(const std::string& path, const boost::json::value* part) {
  Normalizer out;
  const auto add = [&](Part& step) {
    return read_step(step).map([&](Step read) { out.steps_.push_back(std::move(read)); });
  };
  return Part::for_each(path, "normalizer", part, "normalizers", add).map([&] {
    return std::move(out);
  });
}

Result<Normalizer::Step> Normalizer::read_step(Part& part) {
  const std::string& type = part.type();
  if (type == "NFC")
    return NormalForm::nfc;
  if (type == "NFD")
    return NormalForm::nfd;
  if (type == "NFKC")
    return NormalForm::nfkc;
  if (type == "NFKD")
    return NormalForm::nfkd;
  if (type == "Lowercase")
    return LowerCase{};
  if (type == "Strip")
    return Strip{part.fields().boolean("strip_left", true),
                 part.fields().boolean("strip_right", true)};
  if (type == "Prepend")
    return Prepend{part.text("prepend")};
  if (type == "Replace")
    return read_pattern(part).map([&](Pattern pattern) {
      return Step(Replace{std::move(pattern), part.text("content")});
    });
  if (type == "Precompiled")
    return Precompiled::read(part).map([](Precompiled map) { return Step(std::move(map)); });
  return part.refuse();
}

void Normalizer::apply(Text& text) const {
  for (const Step& step : steps_)
    std::visit([&](const auto& what) { run(what, text); }, step);
}

void Normalizer::run(NormalForm form, Text& text) {
  if (!is_ascii(text.characters))
    text.characters = normalize(form, text.characters);
}

void Normalizer::run(LowerCase, Text& text) {
  text.characters = lower_case(text.characters);
}

void Normalizer::run(const Strip& strip, Text& text) {
  std::string_view rest = text.characters;
  while (strip.right && !rest.empty() && is_white_space(last_character(rest).point))
    rest.remove_suffix(last_character(rest).size);
  const std::size_t whole = rest.size();
  while (strip.left && !rest.empty() && is_white_space(first_character(rest).point))
    rest.remove_prefix(first_character(rest).size);
  text.at_start &= rest.size() == whole;
  text.characters = std::string(rest);
}

void Normalizer::run(const Replace& replace, Text& text) {
  const std::string_view old = text.characters;
  std::string out;
  std::size_t done = 0;
  for_each_match(replace.pattern, old, [&](Span match) {
    // The reference places the replacement of several characters where the last of them stood.
    const std::string_view removed = match.of(old);
    if (match.begin == 0)
      text.at_start &= !replace.content.empty() && first_character(removed).size == removed.size();
    out += old.substr(done, match.begin - done);
    out += replace.content;
    done = match.end;
  });
  if (done == 0)
    return;
  out += old.substr(done);
  text.characters = std::move(out);
}

void Normalizer::run(const Prepend& prepend, Text& text) {
  if (!text.characters.empty())
    text.characters.insert(0, prepend.prefix);
}

void Normalizer::run(const Precompiled& precompiled, Text& text) {
  precompiled.apply(text);
}

} // namespace paceline::text
