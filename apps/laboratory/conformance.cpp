// paceline conformance: whether a server's speculation is lossless, and its API honest.
#include "apps/console/command.hpp"
#include "apps/console/json_text.hpp"
#include "apps/console/options.hpp"
#include "apps/console/output.hpp"
#include "apps/console/terminal.hpp"
#include "apps/laboratory/conformance/report.hpp"
#include "apps/laboratory/load/server_options.hpp"

#include <boost/json/parse.hpp>
#include <fmt/format.h>
#include <memory>

namespace paceline::apps {
namespace {

using namespace conformance;

struct Options {
  load::ServerOptions server;
  std::string plain_url;
  std::string off;
  std::string junit_file;
  std::vector<std::string> only;
  SubjectOptions subject;
  bool json = false;
};

Result<boost::json::object> off_of(const std::string& text) {
  boost::system::error_code wrong;
  const auto value = boost::json::parse(text, wrong);
  if (wrong || !value.is_object())
    return fail(ErrorCode::invalid_argument, "--off is no JSON object: '" + text + "'",
                R"(give the fields that switch speculation off, such as {"speculative.n_max": 0})");
  return value.get_object();
}

Result<SubjectOptions> subject_of(const Options& options) {
  SubjectOptions subject = options.subject;
  auto server = load::reach(options.server, options.server.base_url);
  if (!server)
    return tl::unexpected(server.error());
  subject.server = std::move(*server);
  if (!options.plain_url.empty()) {
    auto plain = load::reach(options.server, options.plain_url);
    if (!plain)
      return tl::unexpected(plain.error());
    subject.plain = std::move(*plain);
  }
  if (!options.off.empty()) {
    auto off = off_of(options.off);
    if (!off)
      return tl::unexpected(off.error());
    subject.off = std::move(*off);
  }
  return subject;
}

Result<int> run(const Options& options, Interrupt& interrupt) {
  const auto checks = chosen_checks(options.only);
  if (!checks)
    return tl::unexpected(checks.error());
  auto asked = subject_of(options);
  if (!asked)
    return tl::unexpected(asked.error());
  auto opened = Subject::open(std::move(*asked));
  if (!opened)
    return tl::unexpected(opened.error());
  Subject& subject = **opened;
  const auto scope = interrupt.on_first([&subject] { subject.stop(); });
  ProgressLine line;
  const auto outcomes = run_checks(subject, *checks, [&](const Check& check, std::size_t done) {
    line.show(check.path(), double(done) / double(checks->size()));
  });
  line.clear();
  const auto written = write_if_named(options.junit_file, [&] { return report_junit(outcomes); });
  const auto told = options.json ? print_json(report_json(subject, outcomes))
                                 : print_text(report_text(subject, outcomes));
  if (!told)
    return told;
  if (!written) // What was found has been told all the same.
    return tl::unexpected(written.error());
  if (subject.stopped())
    return status_interrupted;
  return count_of(outcomes, Verdict::fail) > 0 ? status_failed : status_ok;
}

void add_server_options(CLI::App& app, Options& options) {
  app.option_defaults()->group("Server");
  load::add_server_options(app, options.server, "The server, such as http://127.0.0.1:8000")
      ->required();
  app.add_option("--model", options.subject.model, "Default: the first that the server names")
      ->type_name("NAME");
  auto* plain = app.add_option("--plain-url", options.plain_url,
                               "A server of the same model without speculation, to compare with");
  plain->type_name("URL");
  app.add_option("--off", options.off,
                 "Fields that switch speculation off, in place of such a server; Paceline's are "
                 "known")
      ->excludes(plain)
      ->type_name("JSON");
}

void add_suite_options(CLI::App& app, Options& options) {
  app.option_defaults()->group("Suite");
  app.add_option(
         "--only", options.only,
         fmt::format("Groups ({}), or checks such as ends/stop", fmt::join(group_names(), ", ")))
      ->type_name("NAME");
  app.add_option("--seconds", options.subject.seconds,
                 "Time for drawing tokens: more finds smaller biases")
      ->capture_default_str()
      ->check(number_above(0, 1e6))
      ->type_name("S");
  app.add_option("--seed", options.subject.seed, "Of what the suite chooses")
      ->capture_default_str()
      ->check(seed_number())
      ->type_name("N");
  app.add_option("--junit", options.junit_file, "Write the outcome as JUnit's XML, too")
      ->check(writable_file())
      ->type_name("FILE");
}

constexpr const char* footer = R"(Examples:
  paceline conformance --base-url http://127.0.0.1:8000
  paceline conformance --base-url http://127.0.0.1:8001 --plain-url http://127.0.0.1:8002
  paceline conformance --base-url http://127.0.0.1:8000 --only ends warping/logit-bias-ban
  paceline conformance --base-url http://127.0.0.1:8000 --seconds 600 --junit conformance.xml

The suite knows no model: what should come is computed from the log-probabilities that the server
itself reports, and from the same model without speculation. Each check ends as pass, fail, not
supported (the server refuses what is asked for) or not decidable (the evidence says what would
decide it); a failure comes with a curl command that shows it. Where something fails the exit status
is 1. The whole suite alarms falsely with probability 1e-6 at most. docs/conformance.md has more.)";

} // namespace

Command add_conformance(CLI::App& program) {
  auto* app =
      program.add_subcommand("conformance", "Ask any server whether its speculation is lossless");
  auto options = std::make_shared<Options>();
  add_server_options(*app, *options);
  add_suite_options(*app, *options);
  add_json_option(*app, options->json);
  app->footer(footer);
  return {app, [options](Interrupt& interrupt) { return run(*options, interrupt); }};
}

} // namespace paceline::apps
