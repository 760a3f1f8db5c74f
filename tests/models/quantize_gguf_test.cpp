// GGUF files that quantize_checkpoint writes: what they hold, that a folder and a GGUF of one model
// become the same file, and what is refused.
#include "gpu/gguf_encode.hpp"
#include "models/quantize.hpp"
#include "models/sources.hpp"
#include "tests/models/gguf_cases.hpp"
#include "tests/models/gguf_checkpoint.hpp"
#include "tests/models/weights_file.hpp"
#include "tests/models/written_gguf.hpp"

#include <boost/json.hpp>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <limits>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;

namespace {

using test::as;
using test::check_twins;
using test::files_at;
using test::GgufCase;
using test::logits_at_location;
using test::names_it;
using test::not_written;
using test::Rows;
using test::type_in;
using test::written;

/// Every family that files can have.
std::vector<GgufCase> written_cases() {
  std::vector<GgufCase> out = test::gguf_cases();
  out.push_back({"tied, but the file has another head", "llama"});
  out.push_back({"tied, and the file has the head only", "llama"});
  return out;
}

/// A file with one matrix and one vector.
testing::GgufWriter small_file() {
  testing::GgufWriter out;
  std::vector<float> matrix(2 * 256);
  for (std::size_t i = 0; i < matrix.size(); ++i)
    matrix[i] = std::sin(float(i));
  out.put("general.architecture", std::string("llama"))
      .tensor("blk.0.ffn_up.weight", {2, 256}, matrix)
      .tensor("blk.0.ffn_norm.weight", {4}, {1, 2, 3, 4});
  return out;
}

} // namespace

TEST_CASE("a folder of every family becomes the file that a converter's file becomes") {
  const QuantizeOptions eight = as(WeightFormat::q8_0);
  for (const GgufCase& own : written_cases())
    for (const gpu::DType dtype : {gpu::DType::bf16, gpu::DType::f32}) {
      CAPTURE(std::string(own.name));
      CAPTURE(std::string(gpu::to_string(dtype)));
      const test::TemporaryFolder folder;
      test::write_whole(folder, own, dtype);
      const test::TemporaryFolder out;
      const std::string file = out.file("m.gguf");
      const bool whole = written(folder.path(), file, eight).kinds.empty();
      const Rows rows = logits_at_location(file);
      const Rows expected = logits_at_location(folder.path());
      // Rows of most of these matrices fill no blocks, so that they stay as they are. Where some
      // do, rows may go to another expert of nearly the same score.
      if (whole && !own.reordered)
        CHECK(test::same_bits(rows, expected));
      const auto config = test::source_of(folder.path())->config();
      CHECK(test::relative_error(rows, expected) < (config->mixture ? 0.3 : 0.06));
      CHECK(test::source_of(file)->config()->context == config->context);
      auto converted = test::to_gguf(folder.path(), own.architecture);
      if (own.name == std::string("tied, and the file has the head only")) {
        converted.copy("token_embd.weight", "output.weight");
        converted.drop("output.weight");
      }
      written(out.write("converted.gguf", converted.bytes()), out.file("twin.gguf"), eight);
      check_twins(file, out.file("twin.gguf"));
    }
}

TEST_CASE("Llama 3's frequencies become divisors") {
  const test::TemporaryFolder folder;
  test::write_whole(folder, {"Llama 3", "llama"}, gpu::DType::f32);
  const test::TemporaryFolder out;
  written(folder.path(), out.file("m.gguf"), as(WeightFormat::q8_0));
  CHECK(test::worst_error(logits_at_location(out.file("m.gguf")),
                          logits_at_location(folder.path())) < 1e-5);
  CHECK(files_at(out.file("m.gguf"))->tensor("rope_freqs.weight"));
}

TEST_CASE("LongRoPE's factors become tensors") {
  const test::TemporaryFolder folder;
  test::write_whole(folder,
                    {"Phi 3",
                     "phi3",
                     {{"original_max_position_embeddings", 48},
                      {"rope_scaling",
                       {{"type", "longrope"},
                        {"short_factor", json::array(6, 1.25)},
                        {"long_factor", json::array(6, 9)}}}}},
                    gpu::DType::f32);
  const test::TemporaryFolder out;
  written(folder.path(), out.file("m.gguf"), as(WeightFormat::q8_0));
  CHECK(test::worst_error(logits_at_location(out.file("m.gguf")),
                          logits_at_location(folder.path())) < 1e-5);
  CHECK(files_at(out.file("m.gguf"))->integer("phi3.context_length").value() == 128);
}

TEST_CASE("tokenizer, template, tokens that end a text and defaults of sampling go along") {
  const test::TemporaryFolder folder;
  test::write_whole(folder, {"Qwen 3", "qwen3"}, gpu::DType::bf16);
  const test::TemporaryFolder out;
  written(folder.path(), out.file("m.gguf"), as(WeightFormat::q8_0));
  const auto file = test::source_of(out.file("m.gguf"));
  const auto own = test::source_of(folder.path());
  const auto tokenizer = file->tokenizer();
  REQUIRE_MESSAGE(tokenizer, tokenizer.error().text());
  for (const char* text : {"abcab", "<turn>ba<end>"})
    CHECK((*tokenizer)->encode(text) == (*own->tokenizer())->encode(text));
  CHECK(file->chat_template("")->source() == "{{ bos_token }}x");
  CHECK(file->chat_template("")->render({}, false, {}).value() == "<end>x");
  const GenerationDefaults defaults = file->generation_defaults().value();
  CHECK(defaults.end_of_text == std::vector<TokenId>{0, 1});
  CHECK(defaults.warping.temperature == 0.75f);
  CHECK(defaults.warping.top_k == 20);
  CHECK(defaults.warping.top_p == 0.5f);
}

TEST_CASE("every format is written, and read as it was written, of a folder and of a GGUF alike") {
  const test::TemporaryFolder out;
  for (const gpu::GgufFormat format : gpu::encoded_gguf_formats) {
    const std::string name = gpu::to_string(format);
    CAPTURE(name);
    const bool large = format == gpu::GgufFormat::q4_k;
    const std::string demo = test::demo(large ? "target" : "draft");
    const std::string file = out.file(name + ".gguf");
    const auto report = written(demo, file, as(*gpu::weight_format(format)));
    const auto files = files_at(file);
    CHECK(type_in(*files, "output_norm.weight") == "f32");
    CHECK(type_in(*files, "token_embd.weight") == "q8_0");
    CHECK(type_in(*files, "blk.0.ffn_down.weight") == name);
    CHECK(type_in(*files, "blk.0.attn_q.weight") == (large ? "q5_0" : name)); // rows of 384
    CHECK(files->integer("general.quantization_version").value() == 2);
    CHECK(report.bytes_after < report.bytes_before * 6 / 10);
    const Rows rows = logits_at_location(file, 4096);
    // Families round rows in their own ways: 0.0205 for q8_0 where products are of pairs of bf16.
    CHECK(test::worst_error(rows, logits_at_location(demo, 4096)) <
          (format == gpu::GgufFormat::q8_0 ? 0.03 : 0.4));
    const std::string plain =
        out.write("plain.gguf", test::to_gguf(demo, "llama").put("own.key", 7.5f).bytes());
    const std::string twin = out.file(name + "-twin.gguf");
    written(plain, twin, as(*gpu::weight_format(format)));
    check_twins(file, twin);
    CHECK(files_at(twin)->number("own.key").value() == 7.5);
  }
}

TEST_CASE("the head's format is the embedding's, where they are one matrix") {
  const test::TemporaryFolder out;
  const auto report =
      written(test::demo("draft"), out.file("m.gguf"), as(WeightFormat::q8_0, WeightFormat::q4_0));
  CHECK(type_in(*files_at(out.file("m.gguf")), "token_embd.weight") == "q4_0");
  const auto kind = std::ranges::find(report.kinds, "token_embd", &QuantizedKind::name);
  REQUIRE(kind != report.kinds.end());
  CHECK(kind->format == WeightFormat::q4_0);
  CHECK(kind->bits() == doctest::Approx(4.5));
}

TEST_CASE("a GGUF's matrices are rounded once more where that saves bytes, and only there") {
  const test::TemporaryFolder out;
  const std::string from = out.write("from.gguf", small_file().bytes());
  const auto type = [&](const char* file) {
    return type_in(*files_at(out.file(file)), "blk.0.ffn_up.weight");
  };
  written(from, out.file("8.gguf"), as(WeightFormat::q8_0));
  written(out.file("8.gguf"), out.file("4.gguf"), as(WeightFormat::q4_k));
  written(out.file("4.gguf"), out.file("wide.gguf"), as(WeightFormat::q8_0));
  CHECK(type("8.gguf") == "q8_0");
  CHECK(type("4.gguf") == "q4_k");
  CHECK(type("wide.gguf") == "q4_k");
  check_twins(out.file("4.gguf"), out.file("wide.gguf"));
  CHECK(type_in(*files_at(out.file("4.gguf")), "blk.0.ffn_norm.weight") == "f32");
}

TEST_CASE("experts in one tensor, routers, NVFP4 and what files say of themselves") {
  testing::GgufWriter file = small_file();
  std::vector<float> experts(2 * 3 * 256);
  for (std::size_t i = 0; i < experts.size(); ++i)
    experts[i] = std::cos(float(i));
  file.tensor("blk.0.ffn_up_exps.weight", {2, 3, 256}, experts)
      .tensor("blk.0.ffn_gate_inp.weight", {1, 256}, std::vector<float>(256, 0.5f))
      .tensor("blk.0.ffn_down.weight", std::uint32_t(gpu::GgufFormat::nvfp4), {1, 256},
              std::string(4 * 36, '\x11'))
      .put("general.alignment", std::uint32_t(64))
      .put("quantize.imatrix.file", std::string("x"))
      .put("own.texts", std::vector<std::string>{"a", "", "b"})
      .put("own.flags", std::vector<bool>{true, false});
  file.alignment = 64;
  const test::TemporaryFolder out;
  const std::string from = out.write("from.gguf", file.bytes());
  const auto report = written(from, out.file("to.gguf"), as(WeightFormat::mxfp4));
  const auto files = files_at(out.file("to.gguf"));
  CHECK(type_in(*files, "blk.0.ffn_up_exps.weight") == "mxfp4");
  CHECK(files->tensor("blk.0.ffn_up_exps.weight")->shape == std::vector<std::int64_t>{2, 3, 256});
  CHECK(type_in(*files, "blk.0.ffn_gate_inp.weight") == "f32");
  CHECK(type_in(*files, "blk.0.ffn_down.weight") == "nvfp4");
  CHECK(report.kinds.size() == 2);
  CHECK(files->find("own.texts")->strings() == std::vector<std::string_view>{"a", "", "b"});
  CHECK(files->find("own.flags")->integers() == std::vector<std::int64_t>{1, 0});
  CHECK_FALSE(files->find("general.alignment"));
  CHECK_FALSE(files->find("quantize.imatrix.file"));
}

TEST_CASE("what cannot become a GGUF file is refused by name, and nothing is left behind") {
  const test::TemporaryFolder out;
  const auto attempt = [&](const std::string& from, const QuantizeOptions& options) {
    const Error error = not_written(from, out.file("m.gguf"), options);
    CHECK(out.entries() == 0);
    return error;
  };
  const QuantizeOptions eight = as(WeightFormat::q8_0);
  names_it(attempt(test::demo("draft"), as(WeightFormat::mxfp8)),
           "mxfp8 is not written to GGUF files");
  names_it(attempt(test::demo("draft"), as(WeightFormat::q8_0, WeightFormat::mxfp6)), "mxfp6");
  names_it(not_written(test::demo("draft"), out.file("folder"), eight),
           "q8_0 is not written to folders");
  names_it(attempt("scripted", eight), "no weights");
  const auto folder_of = [](const GgufCase& own) {
    auto folder = std::make_unique<test::TemporaryFolder>();
    test::write_whole(*folder, own, gpu::DType::bf16);
    return folder;
  };
  names_it(attempt(folder_of({"GPT-J", ""})->path(), eight), "a GPTJForCausalLM in a folder");
  names_it(attempt(folder_of({"OPT", ""})->path(), eight), "a OPTForCausalLM in a folder");
  names_it(attempt(folder_of({"SmolLM 3", "", {{"no_rope_layer_interval", 2}}})->path(), eight),
           "GGUF files have no word for the windows and rotations of layers");
  names_it(attempt(folder_of({"Gemma 2", "", {{"query_pre_attn_scalar", 20}}})->path(), eight),
           "no word for the attention");
  const auto more = folder_of({"Qwen 3", ""});
  test::WeightsFile weights(more->path());
  weights.put("model.layers.0.extra.weight", "BF16", {2}, std::string(4, '\0'));
  more->write("model.safetensors", weights.bytes());
  names_it(attempt(more->path(), eight), "tensor model.layers.0.extra.weight has no place");
  const auto textless = folder_of({"Qwen 3", ""});
  std::filesystem::remove(textless->file("tokenizer.json"));
  names_it(attempt(textless->path(), eight), "tokenizer.json");
  const auto ended = folder_of({"Qwen 3", ""});
  json::object tokenizer = json::parse(test::read_file(ended->file("tokenizer.json"))).as_object();
  tokenizer["post_processor"] = json::parse(
      R"({"type": "TemplateProcessing", "special_tokens": {"<turn>": {"ids": [1]}},
          "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "<turn>"}}]})");
  ended->write("tokenizer.json", json::serialize(tokenizer));
  names_it(attempt(ended->path(), eight), "a token behind every text");
  const test::TemporaryFolder made;
  written(test::demo("draft"), made.file("once"), as(WeightFormat::mxfp4));
  names_it(attempt(made.file("once"), eight), "quantized already");
}

TEST_CASE("numbers that are not finite are named, and a file is never written over") {
  const test::TemporaryFolder out;
  testing::GgufWriter file = small_file();
  std::vector<float> matrix(2 * 256, 1);
  matrix[300] = std::numeric_limits<float>::infinity();
  file.tensor("blk.0.ffn_up.weight", {2, 256}, matrix);
  const std::string from = out.write("from.gguf", file.bytes());
  const Error error = not_written(from, out.file("to.gguf"), as(WeightFormat::q4_k));
  CHECK(error.code == ErrorCode::corrupt);
  names_it(error, "tensor blk.0.ffn_up.weight holds a number that is not finite in row 1");
  const Error there = not_written(from, from, as(WeightFormat::q4_k));
  CHECK(there.code == ErrorCode::invalid_argument);
  names_it(there, "from.gguf exists");
  QuantizeOptions cancelled = as(WeightFormat::q8_0);
  cancelled.cancelled = [] { return true; };
  CHECK(not_written(test::demo("draft"), out.file("to.gguf"), cancelled).code ==
        ErrorCode::cancelled);
  CHECK(out.entries() == 1);
}
