// What forms cost: compiling one, and the mask behind each token of an answer.
//   tools/usual_schemas.py | form_figures MODEL     (a folder, a GGUF file, or a vocabulary as
//   GGUF)
// Each line of the input is an object with "schema" and an "answer" that fits it. Two rounds over
// all answers are made, each as a new request; the second one is timed, and compiling in the first.
#include "constraints/compiler.hpp"
#include "models/sources.hpp"
#include "sampling/warp.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <fmt/format.h>
#include <iostream>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace paceline;

namespace {

double seconds_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Asked {
  std::string schema;
  std::vector<TokenId> answer;
};

std::vector<Asked> read(std::istream& input, const text::Tokenizer& tokenizer) {
  std::vector<Asked> asked;
  for (std::string line; std::getline(input, line);) {
    const boost::json::object object = boost::json::parse(line).as_object();
    asked.push_back({boost::json::serialize(object.at("schema")),
                     tokenizer.encode(object.at("answer").as_string(), false)});
  }
  return asked;
}

struct Figures {
  std::vector<double> compiled; ///< Seconds.
  std::vector<double> masks;    ///< Seconds.
};

/// Times of one request: its form, and each mask. The answer must fit the form.
void follow(constraints::Compiler& compiler, const Asked& asked, Figures& figures) {
  std::shared_ptr<const sampling::Constraint> form;
  figures.compiled.push_back(seconds_of([&] {
    form = compiler.compile({Constraint::Kind::json_schema, asked.schema, {}}).value();
  }));
  sampling::TokenMask mask;
  for (std::size_t n = 0; n < asked.answer.size(); ++n) {
    bool restricted = false;
    const auto output = std::span(asked.answer).first(n);
    figures.masks.push_back(seconds_of([&] { restricted = form->next({output, 0, {}}, mask); }));
    if (restricted && !sampling::allows(mask, asked.answer[n]))
      throw std::runtime_error("an answer does not fit its schema: " + asked.schema);
  }
}

void print(const char* what, std::vector<double> seconds, double unit) {
  std::ranges::sort(seconds);
  const auto at = [&](double share) {
    return seconds[std::size_t(share * double(seconds.size() - 1))] / unit;
  };
  fmt::print("{:<22} {:>8} {:>9.1f} {:>9.1f} {:>9.1f}\n", what, seconds.size(), at(0.5), at(0.99),
             at(1));
}

int run(const std::string& model) {
  const auto source = models::open_checkpoint(model, "target").value();
  const auto tokenizer = source->tokenizer().value();
  const int size = tokenizer->vocabulary();
  constraints::Compiler compiler({tokenizer, size, {tokenizer->vocabulary() - 1}});
  const std::vector<Asked> asked = read(std::cin, *tokenizer);
  Figures first, second;
  fmt::print("the first form sorts the vocabulary of {} tokens: {:.0f} ms\n", size,
             1e3 * seconds_of([&] {
               std::ignore = compiler.compile({Constraint::Kind::json, "", {}});
             }));
  for (const Asked& one : asked)
    follow(compiler, one, first);
  for (const Asked& one : asked)
    follow(compiler, one, second);
  fmt::print("{:<22} {:>8} {:>9} {:>9} {:>9}\n", "", "count", "median", "P99", "most");
  print("compiled, ms", first.compiled, 1e-3);
  print("mask, first round, us", first.masks, 1e-6);
  print("mask, second, us", second.masks, 1e-6);
  return 0;
}

} // namespace

int main(int count, char** words) {
  if (count != 2) {
    fmt::print(stderr, "usage: form_figures MODEL < schemas and answers\n");
    return 2;
  }
  return run(words[1]);
}
