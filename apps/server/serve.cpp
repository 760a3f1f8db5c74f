// paceline serve: the engine for programs that speak OpenAI's API.
#include "actors/engine_fields.hpp"
#include "apps/console/command.hpp"
#include "apps/console/configuration.hpp"
#include "apps/console/field_names.hpp"
#include "apps/console/options.hpp"
#include "apps/console/session.hpp"
#include "apps/console/terminal.hpp"
#include "apps/console/validators.hpp"
#include "apps/server/loopback.hpp"
#include "apps/server/notify.hpp"
#include "apps/server/replica.hpp"
#include "apps/server/serve_placement.hpp"
#include "apps/server/server.hpp"
#include "apps/server/settings.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

namespace paceline::apps {
namespace {

namespace asio = boost::asio;
using serve::Settings;

struct Options {
  EngineOptions engine;
  Settings settings;
  int warmup_tokens = 16;
  std::string placement; ///< File with a placement; empty: one model is served.
  std::optional<std::uint64_t> device_memory;
};

/// Raises the limit of open files as far as the system lets us, since every connection is a file.
void raise_file_limit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0)
    return;
  files.rlim_cur = files.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &files);
}

/// Returns the last part of a folder's path, or the name as it was given.
std::string served_name(const std::string& model) {
  std::error_code ignored;
  const std::filesystem::path path(model);
  if (!std::filesystem::is_directory(path, ignored))
    return model;
  const auto whole = std::filesystem::weakly_canonical(path, ignored);
  return whole.filename().string();
}

/// Opens an engine and warms it up. log: gets the engine's messages; must outlive it.
Result<Engine> open_warm(EngineOptions engine_options, int warmup_tokens, serve::Log& log) {
  engine_options.log = [&log, model = engine_options.target](LogLevel level,
                                                             const std::string& what) {
    log.write(level, "engine", {{"model", model}, {"what", what}});
  };
  ProgressLine line;
  engine_options.progress = [&line](const std::string& what, double done) {
    line.show(what, done);
  };
  auto engine = Engine::open(std::move(engine_options));
  if (!engine || warmup_tokens == 0)
    return engine;
  if (auto warm = warm_up(*engine, warmup_tokens); !warm)
    return tl::unexpected(std::move(warm.error()));
  return engine;
}

/// Reports the error that ends the program, in the log's form, and returns the exit status. log:
/// earlier lines are written before it.
int tell(const Error& error, const Settings& settings, int status, serve::Log& log) {
  if (settings.log_json)
    log.insist("failed", {{"error", with_options(error).text()}});
  else
    print_error(error);
  return status;
}

/// Reports it when there is no server yet.
int tell(const Error& error, const Settings& settings, int status) {
  serve::Log log("error", settings.log_json);
  return tell(error, settings, status, log);
}

/// The service's life from its first connection to its last.
class Life {
public:
  Life(const Options& options, serve::Server& server, asio::io_context& io,
       std::optional<serve::FleetPlan> plan)
      : options_(options), server_(server), io_(io), signals_(io, SIGTERM), reloads_(io, SIGHUP),
        plan_(std::move(plan)) {
    reloads_.async_wait([this](auto... what) { on_reload(what...); });
    signals_.async_wait([this](auto... what) { on_signal(what...); });
  }
  Result<int> run(Interrupt& interrupt);

private:
  void on_signal(boost::system::error_code cancelled, int) {
    if (cancelled)
      return;
    signals_.async_wait([this](auto... what) { on_signal(what...); });
    drain(status_ok);
  }
  void on_reload(boost::system::error_code cancelled, int) {
    if (cancelled)
      return;
    reloads_.async_wait([this](auto... what) { on_reload(what...); });
    const bool read = server_.reload();
    if ((!plan_ || reload_placement()) && read) // Failures have been logged already.
      server_.service().log().info("reloaded", {{"keys", server_.service().keys().required()}});
  }
  void end_signals() {
    signals_.cancel();
    reloads_.cancel();
  }
  void run_all();
  void drain(int status);
  void load();
  void loaded(Result<Engine> engine);
  void placed(std::size_t engines);
  bool reload_placement();
  void fail_start(Error error);
  void tell_ready(const serve::LogFields& more = {});

  const Options& options_;
  serve::Server& server_;
  asio::io_context& io_;
  asio::signal_set signals_;
  asio::signal_set reloads_;
  std::optional<serve::FleetPlan> plan_; ///< Set if several models are served.
  std::optional<Engine> engine_;         ///< Set if one model is served.
  bool ready_ = false;
  std::optional<Error> failed_;
};

Result<int> Life::run(Interrupt& interrupt) {
  auto& log = server_.service().log();
  log.info("listening",
           {{"address", server_.address()},
            {"grpc", server_.grpc_address()},
            {"model", plan_ ? options_.placement : options_.settings.model_names.front()},
            {"keys", server_.service().keys().required()}});
  if (!server_.service().keys().required() && !serve::is_loopback(options_.settings.host))
    log.write(LogLevel::warning, "open",
              {{"what", "whoever reaches this address may use it: give --api-key-file"}});
  server_.start();
  const auto scope =
      interrupt.on_first([this] { asio::post(io_, [this] { drain(status_interrupted); }); });
  std::thread loader;
  if (plan_)
    server_.open(*plan_,
                 engine_opener(options_.engine,
                               [this, &log](EngineOptions own) {
                                 return open_warm(std::move(own), options_.warmup_tokens, log);
                               }),
                 [this](std::size_t engines) { placed(engines); });
  else
    loader = std::thread([this] { load(); });
  run_all();
  if (loader.joinable())
    loader.join();
  log.info("stopped");
  if (failed_)
    return tell(*failed_, options_.settings, status_usage, log);
  if (const auto closed = engine_ ? close_engine(*engine_) : Result<void>(); !closed)
    return tell(closed.error(), options_.settings, status_failed, log);
  return interrupt.seen() ? status_interrupted : status_ok;
}

/// Runs handlers to the end. An exception that leaves a handler ends what that handler worked on,
/// and nothing else.
void Life::run_all() {
  for (;;) {
    try {
      io_.run();
      return;
    } catch (const std::exception& error) {
      server_.service().log().write(LogLevel::error, "exception", {{"what", error.what()}});
    }
  }
}

void Life::load() {
  auto engine = std::make_shared<Result<Engine>>(
      open_warm(options_.engine, options_.warmup_tokens, server_.service().log()));
  asio::post(io_, [this, engine] { loaded(std::move(*engine)); });
}

void Life::loaded(Result<Engine> engine) {
  if (!engine)
    return fail_start(std::move(engine.error()));
  engine_ = std::move(*engine);
  server_.open(*engine_);
  tell_ready({{"capacity", serve::capacity_of(*engine_)}});
}

/// Goes on when each model of the placement is there, or the log says why not.
void Life::placed(std::size_t engines) {
  if (engines == 0)
    return fail_start({ErrorCode::invalid_argument,
                       "no model of " + options_.placement + " could be loaded",
                       "the log above says why, for each of them"});
  tell_ready();
}

void Life::fail_start(Error error) {
  failed_ = std::move(error);
  end_signals();
  server_.stop();
}

bool Life::reload_placement() {
  const auto plan = read_placement(options_.placement, options_.device_memory);
  if (plan)
    server_.service().fleet().change(*plan);
  else
    server_.service().log().write(LogLevel::error, "reload", {{"error", plan.error().text()}});
  return plan.has_value();
}

void Life::tell_ready(const serve::LogFields& more) {
  ready_ = true;
  serve::LogFields fields{{"address", server_.address()}};
  fields.insert(more.begin(), more.end());
  server_.service().log().info("ready", fields);
  serve::notify_manager("READY=1");
  std::string addresses = server_.address() + "\n"; // Scripts read it; a failure is ignored.
  if (!server_.grpc_address().empty())
    addresses += server_.grpc_address() + "\n";
  Output().write(addresses);
}

/// Drains the server. status: the exit status of a program that is told to end before it has begun.
void Life::drain(int status) {
  if (!ready_)
    _exit(status); // Nothing was accepted, and loading cannot be stopped half-way.
  server_.service().log().info("draining");
  serve::notify_manager("STOPPING=1");
  server_.drain([this] { end_signals(); });
}

/// Refuses options that describe one model beside a file that describes several.
Result<void> check_placement(const Options& options) {
  const EngineOptions standard;
  const char* beside = options.engine.target != standard.target     ? "--model"
                       : !options.engine.chat_template.empty()      ? "--chat-template"
                       : options.engine.devices != standard.devices ? "--device"
                       : !options.engine.stage_layers.empty()       ? "--stage-layers"
                       : options.engine.pipeline_parallel_size != 0 ? "--pipeline-parallel-size"
                       : options.engine.tensor_parallel_size != 1   ? "--tensor-parallel-size"
                       : !options.engine.reserve_device.empty()     ? "--reserve-device"
                       : !options.engine.trace_file.empty()         ? "--trace"
                       : !options.settings.model_names.empty()      ? "--served-model-name"
                                                                    : nullptr;
  if (!beside)
    return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} is for one model, and --placement names several", beside),
              "leave one of them out");
}

/// Reads the placement, if there is one, and sets how many requests may be open, and names.
Result<std::optional<serve::FleetPlan>> prepare(Options& options) {
  raise_file_limit();
  options.settings.max_open = options.engine.max_waiting + options.engine.max_num_seqs;
  std::optional<serve::FleetPlan> plan;
  if (!options.placement.empty()) {
    auto read = check_placement(options).and_then(
        [&] { return read_placement(options.placement, options.device_memory); });
    if (!read)
      return tl::unexpected(std::move(read.error()));
    plan = std::move(*read);
    options.settings.max_open *= int(plan->placement.groups.size());
  } else if (options.settings.model_names.empty()) {
    options.settings.model_names = {served_name(options.engine.target)};
  }
  return plan;
}

Result<int> run(Options options, Interrupt& interrupt) {
  auto plan = prepare(options);
  if (!plan)
    return tell(plan.error(), options.settings, status_usage);
  asio::io_context io(1);
  serve::Server server(io);
  if (auto bound = server.bind(options.settings); !bound)
    return tell(bound.error(), options.settings, status_usage);
  Life life(options, server, io, std::move(*plan));
  return life.run(interrupt);
}

void add_address_options(CLI::App& app, Settings& settings) {
  app.option_defaults()->group("Service");
  app.add_option("--host", settings.host, "Address to listen on; 0.0.0.0: all of this machine's")
      ->capture_default_str()
      ->type_name("HOST");
  app.add_option("--port", settings.port, "0: any that is free; the log says which")
      ->capture_default_str()
      ->check(whole_number(0, 65535))
      ->type_name("N");
  app.add_option("--grpc-port", settings.grpc_port,
                 "Serve gRPC too (docs/serving.md); 0: any port that is free; default: not")
      ->check(whole_number(0, 65535))
      ->type_name("N");
  app.add_option("--served-model-name", settings.model_names,
                 "What clients call the model; may be given several times; default: --model's name")
      ->allow_extra_args(false)
      ->type_name("NAME");
  add_parser_options(app, settings.fleet.parsers);
  app.add_option("--allowed-origins", settings.allowed_origins,
                 "Whose web pages may ask, such as https://example.org; *: any; default: none")
      ->type_name("ORIGIN...");
  app.add_option("--api-key-file", settings.api_key_file,
                 "API keys, one a line; default: those in $PACELINE_API_KEY, if any")
      ->type_name("FILE");
  app.add_flag_callback(
      "--no-web", [&settings] { settings.web = false; }, "No page at /, and no timeline");
  app.add_flag("--share-drafts", settings.share_drafts,
               "Let drafts of one API key's requests come from answers to another's");
  app.add_flag("--share-prefix-cache", settings.share_prefix_cache,
               "Let one API key's requests go on from what was computed for another's prompts");
  app.add_option("--tls-cert,--ssl-certfile", settings.tls_certificate,
                 "Serve HTTPS with this certificate (PEM, with its chain)")
      ->type_name("FILE");
  app.add_option("--tls-key,--ssl-keyfile", settings.tls_key, "And its key")->type_name("FILE");
}

/// Adds an option for a time in seconds; fractions are allowed.
void add_seconds(CLI::App& app, const std::string& name, std::chrono::milliseconds& time,
                 const std::string& what) {
  const auto set = [&time](double seconds) {
    time = std::chrono::milliseconds(std::int64_t(seconds * 1000));
  };
  constexpr double most = 1e6;
  app.add_option_function<double>(name, set, what)
      ->default_str(fmt::format("{:g}", double(time.count()) / 1000))
      ->check(number(0, most))
      ->type_name("SECONDS");
}

void add_limit_options(CLI::App& app, Settings& settings, EngineOptions& engine) {
  app.option_defaults()->group("Limits");
  add_number(app, engine, actors::engine_number("max_waiting"));
  app.add_option("--max-connections", settings.max_connections, "More are told 503")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 20))
      ->type_name("N");
  app.add_option("--max-body", settings.max_body_bytes, "Bytes of a request's body; more: 413")
      ->default_str("16M")
      ->transform(memory_size())
      ->type_name("SIZE");
  app.add_option("--max-request-memory", settings.max_request_memory,
                 "Of all requests' bodies and prompts together; more: 503")
      ->default_str("512M")
      ->transform(memory_size())
      ->type_name("SIZE");
  app.add_option("--max-prompt-tokens", settings.max_prompt_tokens, "0: what the context takes")
      ->capture_default_str()
      ->check(whole_number(0, 1 << 30))
      ->type_name("N");
  add_seconds(app, "--request-timeout", settings.request_timeout,
              "Longest time an answer may take; then 504. 0: no limit");
  add_seconds(app, "--receive-timeout", settings.receive_timeout,
              "For a request's headers, and then for its body; then 408");
  add_seconds(app, "--write-timeout", settings.write_timeout,
              "For a client to take something of its answer; then it is cut off");
  add_seconds(app, "--awake-interval", settings.awake_interval,
              "Of silence in an answer, after which something goes out; 0: nothing does");
  add_seconds(app, "--idle-timeout", settings.idle_timeout, "Connections without a request");
  add_seconds(app, "--drain-timeout", settings.drain_timeout,
              "For running answers to finish after SIGTERM; then they are told 503");
}

void add_running_options(CLI::App& app, Options& options) {
  app.option_defaults()->group("Running");
  app.add_option("--warmup", options.warmup_tokens, "Tokens generated before it is ready; 0: none")
      ->capture_default_str()
      ->check(whole_number(0, 1024))
      ->type_name("N");
  Settings& settings = options.settings;
  add_choice<std::string>(app, "--log-level", settings.log_level,
                          {{"debug", "debug"},
                           {"info", "info"},
                           {"warning", "warning"},
                           {"error", "error"},
                           {"off", "off"}},
                          "How much goes to standard error; default: info");
  app.add_flag("--log-json", settings.log_json, "The log as JSON, one object a line");
  app.add_flag("--log-prompts", settings.log_prompts,
               "Requests' bodies into the log: prompts are private, so only where that is wanted");
}

void add_placement_options(CLI::App& app, Options& options) {
  app.option_defaults()->group("Several models");
  app.add_option("--placement", options.placement,
                 "Serve the models of this file, which paceline plan -o writes, where it has them")
      ->type_name("FILE");
  app.add_option("--device-memory", options.device_memory,
                 "What engines may take of each device; default: as planned")
      ->transform(memory_size())
      ->type_name("SIZE");
  auto& late = options.settings.fleet.refuse_late;
  add_choice<bool>(app, "--late-requests", late, {{"refuse", true}, {"serve", false}},
                   "What to do with requests that would miss their objective; default: refuse");
  add_seconds(app, "--replan", options.settings.fleet.replan,
              "Plan anew from what came, and move models; 0: never");
  app.add_option("--admin-key-file", options.settings.admin_key_file,
                 "Keys of who may load and unload models; default: $PACELINE_ADMIN_KEY, if any")
      ->type_name("FILE");
}

constexpr const char* footer = R"(Examples:
  paceline serve
  curl localhost:8000/v1/completions -d '{"prompt": "def fibonacci(n):", "max_tokens": 32}'
  curl -N localhost:8000/v1/chat/completions \
    -d '{"messages": [{"role": "user", "content": "Hello"}], "stream": true}'
  paceline serve -m ~/models/llama -d ~/models/small --host 0.0.0.0 --api-key-file keys
  paceline plan models.toml -o placed.toml && paceline serve --placement placed.toml
  paceline serve --config serve.toml      # port = 9000, one option a line, names as above

A page for browsers at /, OpenAI's API under /v1 (completions, chat/completions, models), /v1/load and /v1/unload for
whoever has an admin's key (docs/placement.md), and /tokenize, /detokenize,
/version, /metrics, /health, /ready. SIGTERM and Ctrl-C let running answers finish; new requests
are told 503. SIGHUP reads keys, certificate and placement again. The address goes to standard output once it is ready, the log to standard error.
Exit status: 0 after SIGTERM, 130 after Ctrl-C, 2 where it could not start, 1 where its trace could not be written.)";

} // namespace

Command add_serve(CLI::App& program) {
  auto* app = program.add_subcommand("serve", "Serve OpenAI's API over HTTP, and gRPC");
  auto options = std::make_shared<Options>();
  add_configuration_option(*app);
  add_address_options(*app, options->settings);
  add_placement_options(*app, *options);
  add_model_options(*app, options->engine);
  add_speculation_options(*app, options->engine, options->settings.defaults);
  add_batching_options(*app, options->engine);
  add_limit_options(*app, options->settings, options->engine);
  add_running_options(*app, *options);
  add_trace_option(*app, options->engine);
  app->footer(footer);
  return {app, [options](Interrupt& interrupt) { return run(*options, interrupt); }};
}

} // namespace paceline::apps
