// paceline pull: a model from the hub, under its name.
#include "apps/console/command.hpp"
#include "apps/console/output.hpp"
#include "apps/terminal/pull/fetch.hpp"
#include "apps/terminal/pull/shelf.hpp"
#include "apps/terminal/pull/usual_draft.hpp"
#include "models/checkpoint/stores.hpp"
#include "models/sources.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <string>

namespace paceline::apps {
namespace {

struct Options {
  std::string name;
  std::string revision = "main";
};

Result<pull::Wanted> wanted_by(const Options& options) {
  const auto name = models::parse_model_name(options.name);
  if (!name || !name->at_hub())
    return fail(ErrorCode::invalid_argument,
                text::shown(options.name) + " is no name of a model at the hub",
                "give ORG/NAME or ORG/NAME:VARIANT, such as Qwen/Qwen3-8B-GGUF:Q4_K_M");
  const auto fits = [](char c) { return c > ' ' && c < 0x7f; };
  if (options.revision.empty() || !std::ranges::all_of(options.revision, fits))
    return fail(ErrorCode::invalid_argument, "--revision names none",
                "give a branch, a tag or a commit, such as main");
  return pull::Wanted{*name, options.revision};
}

/// Returns a line that says how to use the model, with a draft that fits where one is known.
std::string advice(const std::string& name, const models::ModelConfig& config) {
  const auto draft = pull::usual_draft(config, name);
  if (!draft)
    return fmt::format("paceline chat -m {}\n", name);
  const auto parsed = models::parse_model_name(*draft);
  const auto stored = parsed ? models::find_stored(*parsed) : std::nullopt;
  const std::string chat = fmt::format("paceline chat -m {} -d {}\n", name, *draft);
  return stored && *stored ? chat : fmt::format("paceline pull {} && {}", *draft, chat);
}

Result<int> report(const pull::Fetched& fetched) {
  const std::string name = fetched.name.text();
  const auto here = pull::find_pulled(name);
  if (!here)
    return tl::unexpected(here.error());
  std::string text = fmt::format("{} is here{}: {}\n", name, fetched.was_here ? " already" : "",
                                 human_bytes(here->bytes));
  const auto config = models::open_checkpoint(name, "target").and_then([](const auto& source) {
    return source->config();
  });
  if (config)
    text += advice(name, *config);
  else if (config.error().code == ErrorCode::unsupported)
    note("paceline: it is no model that can be loaded by itself: " + config.error().text() + "\n");
  return print_text(text);
}

Result<int> run(const Options& options, Interrupt& interrupt) {
  const auto wanted = wanted_by(options);
  if (!wanted)
    return tl::unexpected(wanted.error());
  const auto access = pull::HubAccess::from_environment();
  if (!access)
    return tl::unexpected(access.error());
  const auto models = pull::shelf();
  if (!models)
    return tl::unexpected(models.error());
  std::stop_source stop;
  const auto scope = interrupt.on_first([&] { stop.request_stop(); });
  return pull::fetch_model(*access, *wanted, *models, stop.get_token()).and_then(report);
}

constexpr const char* footer = R"(Examples:
  paceline pull Qwen/Qwen3-0.6B
  paceline pull Qwen/Qwen3-8B-GGUF:Q4_K_M && paceline chat -m Qwen/Qwen3-8B-GGUF:Q4_K_M

A name without a variant is the checkpoint (safetensors) where there is one, else the GGUF file in
Q4_K_M. What is fetched is checked by its digests, and has its name when it is whole. After Ctrl-C
or a cut the same command goes on. HF_TOKEN is for models that not everybody may read, HF_ENDPOINT
for another hub, and PACELINE_MODELS for another folder than ~/.local/share/paceline/models.)";

} // namespace

Command add_pull(CLI::App& program) {
  auto* app = program.add_subcommand("pull", "Fetch a model from the hub");
  auto options = std::make_shared<Options>();
  app->add_option("name", options->name, "ORG/NAME, or ORG/NAME:VARIANT for a GGUF file")
      ->required()
      ->type_name("NAME");
  app->add_option("--revision", options->revision, "A branch, a tag or a commit")
      ->capture_default_str()
      ->type_name("REV");
  app->footer(footer);
  return {app, [options](Interrupt& interrupt) { return run(*options, interrupt); }};
}

} // namespace paceline::apps
