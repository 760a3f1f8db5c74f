#include "tests/models/written_gguf.hpp"

#include "models/quantize.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <utility>

namespace paceline::models::test {

void write_whole(const TemporaryFolder& folder, const GgufCase& own, gpu::DType dtype) {
  write_case(folder, own, dtype);
  write_texts(folder);
}

QuantizeOptions as(WeightFormat format, std::optional<WeightFormat> head) {
  QuantizeOptions out;
  out.blocks = {format, ScaleChoice::search};
  if (head)
    out.head = {*head, ScaleChoice::search};
  return out;
}

QuantizationReport written(const std::string& from, const std::string& to,
                           const QuantizeOptions& options) {
  auto report = quantize_checkpoint(from, to, options);
  REQUIRE_MESSAGE(report, report.error().text());
  return std::move(*report);
}

Error not_written(const std::string& from, const std::string& to, const QuantizeOptions& options) {
  const auto report = quantize_checkpoint(from, to, options);
  REQUIRE_MESSAGE(!report, "it was written");
  CHECK_FALSE(report.error().hint.empty());
  return report.error();
}

bool names_it(const Error& error, std::string_view text) {
  const bool found = error.text().find(text) != std::string::npos;
  CHECK_MESSAGE(found, error.text(), " lacks: ", text);
  return found;
}

std::shared_ptr<const GgufFiles> files_at(const std::string& file) {
  auto files = GgufFiles::open(file);
  REQUIRE_MESSAGE(files, files.error().text());
  return *files;
}

std::string type_in(const GgufFiles& files, const std::string& tensor) {
  const GgufTensor* found = files.tensor(tensor);
  REQUIRE_MESSAGE(found, tensor);
  return to_string(found->type);
}

void check_twins(const std::string& a, const std::string& b) {
  const auto one = files_at(a);
  const auto other = files_at(b);
  REQUIRE(one->tensors().size() == other->tensors().size());
  for (const auto& [name, tensor] : one->tensors()) {
    CAPTURE(name);
    const GgufTensor* twin = other->tensor(name);
    REQUIRE(twin);
    CHECK(tensor.stored.type == twin->type);
    CHECK(tensor.stored.shape == twin->shape);
    CHECK(std::ranges::equal(tensor.stored.bytes, twin->bytes));
  }
}

Rows logits_at_location(const std::string& location, int vocabulary) {
  auto model = load(location, device(), {});
  REQUIRE_MESSAGE(model, model.error().text());
  return logits_of(*model, some_tokens(40, vocabulary));
}

double relative_error(const Rows& rows, const Rows& expected) {
  double error = 0;
  double size = 0;
  for (std::size_t r = 0; r < expected.size(); ++r)
    for (std::size_t i = 0; i < expected[r].size(); ++i) {
      error += std::pow(double(rows[r][i]) - double(expected[r][i]), 2);
      size += std::pow(double(expected[r][i]), 2);
    }
  return std::sqrt(error / size);
}

} // namespace paceline::models::test
