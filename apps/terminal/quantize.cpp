// paceline quantize: writes a checkpoint's weights in fewer bits, to a folder of their own or to a
// GGUF file.
#include "models/quantize.hpp"
#include "apps/console/command.hpp"
#include "apps/console/options.hpp"
#include "apps/console/output.hpp"
#include "gpu/gguf_encode.hpp"
#include "gpu/mx.hpp"
#include "models/sources.hpp"

#include <atomic>
#include <boost/json/array.hpp>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps {
namespace {

struct Options {
  std::string model = "demo";
  std::string output; ///< A folder, or a file if it ends with ".gguf".
  std::optional<WeightFormat> weights;
  std::optional<WeightFormat> head_weights;
  ScaleChoice scales = ScaleChoice::search;
  bool json = false;
};

bool is_file(const Options& options) {
  return options.output.ends_with(".gguf");
}

boost::json::object to_json(const models::QuantizedKind& kind) {
  return {{"name", kind.name},
          {"format", to_string(kind.format)},
          {"matrices", kind.matrices},
          {"weights", kind.error.weights},
          {"bits", kind.bits()},
          {"mean_squared_error", kind.error.mean_squared()},
          {"relative_squared_error", kind.error.relative()},
          {"largest_error", kind.error.largest}};
}

boost::json::object to_json(const Options& options, const models::QuantizationReport& report) {
  boost::json::array kinds;
  for (const models::QuantizedKind& kind : report.kinds)
    kinds.push_back(to_json(kind));
  return {{is_file(options) ? "file" : "folder", options.output},
          {"weights", to_string(*options.weights)},
          {"weight_scales", to_string(options.scales)},
          {"bytes_before", report.bytes_before},
          {"bytes_after", report.bytes_after},
          {"layers", std::move(kinds)}};
}

std::string to_text(const Options& options, const models::QuantizationReport& report) {
  Table table({"layers", "format", "matrices", "weights", "bits", "squared error", "of squares",
               "largest error"});
  for (const models::QuantizedKind& kind : report.kinds)
    table.add({kind.name, to_string(kind.format), std::to_string(kind.matrices),
               fmt::format("{:.2f} M", double(kind.error.weights) / 1e6),
               fmt::format("{:.2f}", kind.bits()), fmt::format("{:.3g}", kind.error.mean_squared()),
               fmt::format("{:.3g}", kind.error.relative()),
               fmt::format("{:.3g}", kind.error.largest)});
  return table.text() + fmt::format("{}: {}, before {}\n", options.output,
                                    human_bytes(report.bytes_after),
                                    human_bytes(report.bytes_before));
}

Result<int> run(const Options& options, Interrupt& interrupt) {
  const auto location = models::resolve_model_path(options.model, "target");
  if (!location)
    return tl::unexpected(location.error());
  std::atomic<bool> cancelled = false;
  const auto scope = interrupt.on_first([&] { cancelled = true; });
  models::QuantizeOptions how;
  how.blocks = {*options.weights, options.scales};
  if (options.head_weights)
    how.head = {*options.head_weights, options.scales};
  how.cancelled = [&] { return cancelled.load(); };
  ProgressLine line;
  how.progress = [&](const std::string& what, double done) { line.show(what, done); };
  const auto report = models::quantize_checkpoint(*location, options.output, how);
  line.clear();
  if (!report)
    return tl::unexpected(report.error());
  return options.json ? print_json(to_json(options, *report))
                      : print_text(to_text(options, *report));
}

constexpr const char* footer = R"(Examples:
  paceline quantize -m ~/models/target -o ~/models/target-mxfp6 --weights mxfp6
  paceline quantize -o /tmp/demo-mxfp4 --weights mxfp4 --head-weights mxfp8
  paceline quantize -m ~/models/target -o target-q4_k.gguf --weights q4_k

Errors are means over the weights of a kind of layer: the squared difference, that over the
weights' own mean square, and the largest difference. The folder is laid out as AMD's Quark does,
and loads like any other; docs/weights.md says who else reads it. A GGUF file is also read by
llama.cpp and what is built on it.)";

/// Formats of GGUF files that are no microscaling ones.
std::vector<WeightFormat> gguf_formats() {
  std::vector<WeightFormat> out;
  for (const gpu::GgufFormat format : gpu::encoded_gguf_formats)
    if (const auto own = gpu::weight_format(format); own && !gpu::is_mx(*own))
      out.push_back(*own);
  return out;
}

} // namespace

Command add_quantize(CLI::App& program) {
  auto* app = program.add_subcommand("quantize", "Write a model whose weights take fewer bits");
  auto options = std::make_shared<Options>();
  app->add_option(
         "-m,--model", options->model,
         "A folder, a GGUF file (to make another), a name that paceline list shows, or demo")
      ->capture_default_str()
      ->type_name("MODEL");
  app->add_option("-o,--output", options->output,
                  "The folder, or the GGUF file (NAME.gguf), to write; nothing may be there")
      ->required()
      ->type_name("PATH");
  add_weight_format(*app, "--weights", options->weights,
                    "Format of the blocks: mxfp8, mxfp8-e5m2, mxfp6, mxfp6-e3m2, mxfp4 or mxint8; "
                    "of a GGUF file q8_0, q5_0, q4_0, q4_k or mxfp4",
                    gguf_formats())
      ->required();
  add_weight_format(*app, "--head-weights", options->head_weights,
                    "Format of the output head; default: as it is, in a GGUF file q8_0",
                    gguf_formats());
  add_weight_scales(*app, options->scales);
  add_json_option(*app, options->json);
  app->footer(footer);
  return {app, [options](Interrupt& interrupt) { return run(*options, interrupt); }};
}

} // namespace paceline::apps
