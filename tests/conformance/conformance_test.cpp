// The suite, on servers that are honest, and on servers with each of the planted faults.
#include "apps/laboratory/conformance/report.hpp"
#include "tests/apps/support.hpp"
#include "tests/conformance/faults.hpp"
#include "tests/serve/live_server.hpp"
#include "tests/serve/proxy.hpp"
#include "tests/support/effort.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <doctest/doctest.h>
#include <fstream>
#include <iterator>
#include <set>
#include <span>

using namespace paceline;
using namespace paceline::apps::conformance;
using namespace paceline::testing;

namespace {

/// Shows its model the functions, and calls in Hermes' form.
constexpr const char* with_tools =
    "{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls %}<tool_call>\n"
    "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n"
    "</tool_call>{% endfor %};{% endfor %}{{ tools | tojson if tools }}";

/// The demo pair, which calls functions.
class Served {
public:
  explicit Served(SpeculationMode mode) {
    EngineOptions options = demo_pair();
    options.chat_template = folder_.write("chat_template.jinja", with_tools);
    options.speculation = mode;
    server_.emplace(std::move(options));
  }
  std::uint16_t port() const { return server_->port(); }

private:
  TemporaryFolder folder_;
  std::optional<LiveServer> server_;
};

SubjectOptions at_port(std::uint16_t port, double seconds) {
  SubjectOptions options;
  options.server = {*apps::load::parse_base_url("http://127.0.0.1:" + std::to_string(port)), "",
                    ""};
  options.seconds = seconds;
  return options;
}

std::vector<Outcome> outcomes_of(std::uint16_t port, const std::vector<std::string>& only,
                                 double seconds) {
  auto subject = Subject::open(at_port(port, seconds));
  REQUIRE(subject);
  const auto checks = chosen_checks(only);
  REQUIRE(checks);
  return run_checks(**subject, *checks, {});
}

/// Fails the test for each check that fails, and returns the verdicts by path.
std::map<std::string, Verdict> verdicts_of_honest(const std::vector<Outcome>& outcomes) {
  std::map<std::string, Verdict> verdicts;
  for (const Outcome& one : outcomes) {
    INFO(one.check.path(), ": ", one.finding.evidence, "\n", one.finding.curl);
    CHECK(one.finding.verdict != Verdict::fail);
    verdicts[one.check.path()] = one.finding.verdict;
  }
  return verdicts;
}

std::vector<Fault> all_faults() {
  std::vector<Fault> all = answer_faults();
  for (Fault& fault : request_faults())
    all.push_back(std::move(fault));
  return all;
}

/// Makes the lists of an answer those of the distribution at a temperature, among the listed.
void temper_lists(boost::json::object& answer, double temperature) {
  auto& choice = answer.at("choices").as_array().front().as_object();
  auto* scores = choice.if_contains("logprobs");
  if (temperature == 0 || !scores || !scores->is_object())
    return;
  for (boost::json::value& list : scores->as_object().at("top_logprobs").as_array()) {
    double sum = 0;
    for (const auto& [name, logprob] : list.as_object())
      sum += std::exp(logprob.to_number<double>() / temperature);
    for (auto& [name, logprob] : list.as_object())
      logprob = logprob.to_number<double>() / temperature - std::log(sum);
  }
}

/// Time that the checks of what is drawn share: each has an eighth of it.
constexpr double drawing_seconds = 80;

std::vector<std::string> groups_but(const std::string& one) {
  auto groups = group_names();
  std::erase(groups, one);
  return groups;
}

} // namespace

TEST_CASE("every check has a planted fault, and every fault a check") {
  std::set<std::string> caught;
  for (const Fault& fault : all_faults())
    caught.insert(fault.caught_by);
  std::set<std::string> checks;
  for (const Check& check : all_checks())
    CHECK(checks.insert(check.path()).second);
  CHECK(caught == checks);
}

TEST_CASE("the decisions that are statistical are no more than the false alarm allows for") {
  const auto statistical = std::ranges::count_if(all_checks(), [](const Check& check) {
    return check.group == "distribution" || check.group == "seeds"; // one each, at most
  });
  CHECK(statistical <= statistical_max);
}

TEST_CASE("each planted fault is found by its check") {
  const Served server(SpeculationMode::sync);
  for (const Fault& fault : all_faults()) {
    if (sanitized && fault.caught_by.starts_with("distribution/"))
      continue; // Too few draws come in the time.
    const FaultyProxy proxy(server.port(), fault);
    const auto outcomes = outcomes_of(proxy.port(), {fault.caught_by}, drawing_seconds);
    REQUIRE(outcomes.size() == 1);
    const Finding& finding = outcomes.front().finding;
    INFO(fault.name, " (", fault.caught_by, "): ", finding.evidence);
    CHECK(finding.verdict == Verdict::fail);
    CHECK(!finding.evidence.empty());
    CHECK(finding.curl.starts_with("curl -s http://127.0.0.1:"));
  }
}

TEST_CASE("an honest server is not flagged, whatever the delays and the borders of pieces") {
  const Served server(SpeculationMode::overlap);
  const Proxy proxy(server.port(), Proxy::Ragged());
  const auto verdicts =
      verdicts_of_honest(outcomes_of(proxy.port(), groups_but("distribution"), 1));
  for (const auto& [path, verdict] : verdicts) {
    CAPTURE(path);
    CHECK(verdict == Verdict::pass); // All is offered, and decided with the demo pair, too.
  }
}

TEST_CASE("a list whose tokens all have one name ends no check") {
  const Fault nameless{"chats alone, whose tokens have one name", "",
                       [](Exchange& exchange) {
                         if (exchange.has("prompt") && !exchange.has("add_special_tokens"))
                           exchange.refusal = 404;
                       },
                       [](Exchange&, boost::json::object& answer) {
                         boost::system::error_code missing;
                         boost::json::value whole(answer);
                         auto* tokens = whole.find_pointer("/choices/0/logprobs/content", missing);
                         if (!tokens)
                           return;
                         for (boost::json::value& token : tokens->as_array())
                           for (boost::json::value& one : token.at("top_logprobs").as_array())
                             one.as_object()["token"] = token.at("token");
                         answer = whole.as_object();
                       }};
  const Served server(SpeculationMode::sync);
  const FaultyProxy proxy(server.port(), nameless);
  const auto outcomes = outcomes_of(proxy.port(), {"warping", "distribution"}, 1);
  CHECK(outcomes.size() > 10);
}

TEST_CASE("honest servers that offer less are not flagged either") {
  const auto beyond = [](const char* field, std::int64_t most) {
    return [field, most](Exchange& exchange) {
      const auto* value = exchange.request.if_contains(field);
      if (value && (!value->is_int64() || value->get_int64() > most))
        exchange.refusal = 400;
    };
  };
  const std::vector<Fault> servers{
      {"chats alone",
       "",
       [](Exchange& exchange) {
         if (exchange.has("prompt") && !exchange.has("add_special_tokens"))
           exchange.refusal = 404;
       },
       {}},
      {"few likeliest tokens", "", beyond("logprobs", 5), {}},
      {"none of the fields that OpenAI does not have",
       "",
       [](Exchange& exchange) {
         for (const char* field : {"top_k", "min_p", "repetition_penalty", "ignore_eos",
                                   "stop_token_ids", "min_tokens", "bad_words", "seed", "echo"})
           if (exchange.has(field))
             exchange.refusal = 400;
       },
       {}},
  };
  const Served server(SpeculationMode::sync);
  for (const Fault& one : std::span(servers).first(sanitized ? 1 : servers.size())) {
    CAPTURE(one.name);
    const FaultyProxy proxy(server.port(), one);
    const auto verdicts = verdicts_of_honest(outcomes_of(
        proxy.port(),
        {"equality/repeat", "equality/streamed", "ends", "logprobs", "warping", "seeds"}, 1));
    CHECK(verdicts.at("equality/streamed") == Verdict::pass);
    CHECK(verdicts.at("ends/max-tokens") == Verdict::pass);
    CHECK(verdicts.at("warping/logit-bias-ban") == Verdict::pass);
  }
}

TEST_CASE("lists of what temperature has left are told from raw ones") {
  const Served server(SpeculationMode::sync);
  const Fault reported{"", "", {}, [](Exchange& exchange, boost::json::object& answer) {
                         const auto* temperature = exchange.request.if_contains("temperature");
                         if (temperature && temperature->is_number())
                           temper_lists(answer, temperature->to_number<double>());
                       }};
  const FaultyProxy proxy(server.port(), reported);
  const auto outcomes = outcomes_of(proxy.port(), {"distribution/temperature-1.3"}, 40);
  verdicts_of_honest(outcomes);
}

TEST_CASE("what an honest server draws is not flagged") {
  LiveServer server;
  verdicts_of_honest(outcomes_of(server.port(), {"distribution"}, 8));
}

TEST_CASE("the program tells by its exit status, its JSON and JUnit's XML what came of it") {
  LiveServer server;
  const TemporaryFolder folder;
  const std::string url = "http://127.0.0.1:" + std::to_string(server.port());
  const auto object =
      paceline_json({"conformance", "--base-url", url + "/v1", "--only", "ends/usage",
                     "ends/stream", "--junit", folder.file("out.xml")});
  check_keys(object, {"base_url", "model", "endpoint", "top_logprobs", "context", "off", "seed",
                      "false_alarm", "pass", "fail", "not_supported", "not_decidable", "checks"});
  CHECK(object.at("pass") == 2);
  CHECK(object.at("checks").at(0).at("verdict") == "pass");
  std::ifstream file(folder.file("out.xml"));
  const std::string xml{std::istreambuf_iterator<char>(file), {}};
  CHECK(xml.find("<testsuite name=\"ends\" tests=\"2\" failures=\"0\" skipped=\"0\">") !=
        std::string::npos);

  const FaultyProxy proxy(server.port(), answer_faults()[10]);
  const auto failed =
      run_paceline({"conformance", "--base-url", "http://127.0.0.1:" + std::to_string(proxy.port()),
                    "--only", answer_faults()[10].caught_by});
  CHECK(failed.status == 1);
  CHECK(failed.output.find("\n               curl -s http://127.0.0.1:") != std::string::npos);
  CHECK(failed.output.find("0 pass, 1 fail") != std::string::npos);
}

TEST_CASE("the program says what is wrong with its options") {
  const std::string nobody = "http://127.0.0.1:1";
  check_complaint(run_paceline({"conformance"}), 2, {"--base-url"});
  check_complaint(run_paceline({"conformance", "--base-url", "here"}), 2, {"here", "http://"});
  check_complaint(run_paceline({"conformance", "--base-url", nobody, "--only", "truth"}), 2,
                  {"truth", "equality", "ends"});
  check_complaint(run_paceline({"conformance", "--base-url", nobody, "--off", "off"}), 2,
                  {"--off", "JSON"});
  check_complaint(
      run_paceline({"conformance", "--base-url", nobody, "--off", "{}", "--plain-url", nobody}), 2,
      {"--off", "--plain-url"});
  check_complaint(run_paceline({"conformance", "--base-url", nobody}), 1, {"connect", nobody});
}
