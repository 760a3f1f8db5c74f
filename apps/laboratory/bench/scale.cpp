#include "apps/laboratory/bench/scale.hpp"

#include "apps/console/command.hpp"
#include "apps/console/terminal.hpp"
#include "apps/console/validators.hpp"
#include "models/head.hpp"
#include "models/sources.hpp"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <unistd.h>

namespace paceline::apps {
namespace {
namespace fs = std::filesystem;

/// Makes a temporary folder. Empty: none can be made.
std::string make_folder() {
  std::error_code failed;
  std::string pattern = (fs::temp_directory_path(failed) / "paceline-bench-XXXXXX").string();
  return !failed && mkdtemp(pattern.data()) ? pattern : std::string();
}

/// Makes this folder. Empty: it cannot be made, or is there already.
std::string make_new(const std::string& path) {
  std::error_code failed;
  return fs::create_directory(path, failed) ? path : std::string();
}

void remove_folder(const std::string& path) {
  std::error_code ignored;
  if (!path.empty())
    fs::remove_all(path, ignored);
}

} // namespace

ScaledFolder::ScaledFolder(Interrupt& interrupt, const std::string& keep)
    : kept_(keep), path_(keep.empty() ? make_folder() : make_new(keep)),
      scope_(interrupt.on_first([path = path_, stays = stays_] {
        if (!*stays)
          remove_folder(path);
        _exit(status_interrupted);
      })) {}

ScaledFolder::~ScaledFolder() {
  if (!*stays_)
    remove_folder(path_);
}

Result<std::string> ScaledFolder::enlarge(const std::string& model, const std::string& role,
                                          const models::Enlargement& wanted) {
  if (role == "draft" && (models::is_self_draft(model) || models::is_head_draft(model)))
    return fail(ErrorCode::invalid_argument, "--draft-scale has no model to enlarge in " + model,
                "leave it out: that goes with the target");
  auto source = models::resolve_model_path(model, role);
  if (!source)
    return source;
  const std::string target = path_ + "/" + role;
  std::error_code failed;
  if (path_.empty() || !fs::create_directory(target, failed))
    return kept_.empty() ? fail(ErrorCode::unavailable, "cannot make a temporary folder",
                                "set TMPDIR to a folder that can be written")
                         : fail(ErrorCode::invalid_argument, "cannot make the folder " + kept_,
                                "--keep-scaled takes one that is not there yet, in one that is");
  ProgressLine line;
  const auto show = [&line](const std::string& what, double done) { line.show(what, done); };
  const auto written = models::enlarge_checkpoint(*source, target, wanted, show);
  if (!written)
    return tl::unexpected(written.error());
  return target;
}

Result<std::unique_ptr<ScaledFolder>> scale_models(const ScaleOptions& options,
                                                   EngineOptions& engine, Interrupt& interrupt) {
  if (options.target.empty() && options.draft.empty()) {
    if (!options.keep.empty())
      return fail(ErrorCode::invalid_argument, "--keep-scaled has nothing to keep",
                  "give --scale or --draft-scale");
    return nullptr;
  }
  auto folder = std::make_unique<ScaledFolder>(interrupt, options.keep);
  const auto scale = [&](const std::string& size, std::string& model, const char* role) {
    if (size.empty() || model.empty())
      return Result<void>();
    return folder->enlarge(model, role, *parse_scale(size)).map([&](std::string path) {
      model = std::move(path);
    });
  };
  std::string nothing;
  std::string& draft = engine.drafters.empty() ? nothing : engine.drafters.back();
  const auto scaled = scale(options.target, engine.target, "target").and_then([&] {
    return scale(options.draft, draft, "draft");
  });
  if (!scaled)
    return tl::unexpected(scaled.error());
  folder->complete();
  return folder;
}

void name_scaled(ModelInfo& model, const std::string& original, const std::string& size) {
  if (!size.empty())
    model.name = original + ", scaled to " + size;
}

void add_scale_options(CLI::App& app, ScaleOptions& options) {
  const auto check = [](const std::string& text) {
    return parse_scale(text) ? std::string()
                             : not_acceptable(text, "a number of parameters: 350m, 1.5b, moe-1.5b");
  };
  app.option_defaults()->group("Models and devices");
  app.add_option("--scale", options.target,
                 "Enlarge the target to SIZE parameters that compute the same distribution")
      ->check(CLI::Validator(check, ""))
      ->type_name("SIZE");
  app.add_option("--draft-scale", options.draft, "The same for the draft")
      ->check(CLI::Validator(check, ""))
      ->type_name("SIZE");
  app.add_option("--keep-scaled", options.keep,
                 "Write enlarged models to this new folder, as target and draft, and leave them")
      ->type_name("DIR");
}

std::optional<models::Enlargement> parse_scale(const std::string& text) {
  constexpr std::string_view mixture = "moe-";
  models::Enlargement wanted{0, text.starts_with(mixture)};
  double number = 0;
  const char* begin = text.data() + (wanted.mixture ? mixture.size() : 0);
  const char* end = text.data() + text.size();
  const auto [unit, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || unit + 1 != end || !(number > 0 && number < 1e6))
    return std::nullopt;
  switch (*unit) {
  case 'm':
  case 'M': wanted.parameters = std::uint64_t(number * 1e6); return wanted;
  case 'b':
  case 'B': wanted.parameters = std::uint64_t(number * 1e9); return wanted;
  default: return std::nullopt;
  }
}

} // namespace paceline::apps
