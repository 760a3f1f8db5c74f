// paceline serve as operators run it.
#include "apps/console/limits.hpp"
#include "tests/serve/http_client.hpp"
#include "tests/serve/remote.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/datagram_protocol.hpp>
#include <boost/json/parse.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

using namespace paceline::testing;
namespace asio = boost::asio;

namespace {

std::vector<std::string> serve_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {PACELINE_PROGRAM, "serve"});
  return arguments;
}

/// A server of a scripted model, on a port of its own.
class Served {
public:
  /// launcher: a program that starts ours, with its own arguments. model: what is served.
  explicit Served(const std::vector<std::string>& more = {},
                  const std::vector<std::string>& environment = {},
                  const std::vector<std::string>& launcher = {},
                  const std::vector<std::string>& model = {"-m", "scripted:context=65536", "-d",
                                                           ""})
      : process_(command(more, launcher, model), environment) {
    process_.close_input();
    const std::string begin = "http://127.0.0.1:";
    process_.read_output(begin.size() + 2);
    while (process_.output().find('\n') == std::string::npos) {
      const std::size_t had = process_.output().size();
      process_.read_output(had + 1);
      REQUIRE(process_.output().size() > had);
    }
    REQUIRE(process_.output().starts_with(begin));
    port_ = std::uint16_t(std::stoi(process_.output().substr(begin.size())));
  }
  std::uint16_t port() const { return port_; }
  ProcessResult end(int signal) {
    process_.send(signal);
    return process_.wait();
  }
  Process& process() { return process_; }

private:
  static std::vector<std::string> command(const std::vector<std::string>& more,
                                          const std::vector<std::string>& launcher,
                                          const std::vector<std::string>& model) {
    auto all = serve_command({"--port", "0"});
    all.insert(all.end(), model.begin(), model.end());
    all.insert(all.end(), more.begin(), more.end());
    all.insert(all.begin(), launcher.begin(), launcher.end());
    return all;
  }
  Process process_;
  std::uint16_t port_ = 0;
};

void check_refused(const std::vector<std::string>& arguments, const std::string& word) {
  CAPTURE(word);
  const ProcessResult result = run_process(serve_command(arguments));
  INFO(result.errors);
  CHECK(result.status == 2);
  CHECK(result.output.empty());
  CHECK(result.errors.starts_with("paceline: "));
  CHECK(std::count(result.errors.begin(), result.errors.end(), '\n') == 1);
  CHECK(result.errors.find(word) != std::string::npos);
}

const std::string small = R"({"prompt": [1, 2], "max_tokens": 3})";

} // namespace

TEST_CASE("SIGTERM under load: every accepted request finishes, and the program ends with 0") {
  Served served({"--device", "sim:1ms"});
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(std::make_unique<HttpClient>(served.port()));
    clients.back()->send("POST", "/v1/completions",
                         R"({"prompt": [1], "max_tokens": 200, "stream": true})");
    CHECK(clients.back()->read_head().status == 200);
  }
  served.process().send(SIGTERM);
  for (const auto& client : clients)
    CHECK(client->read_events().back().at("choices").at(0).at("finish_reason") == "length");
  const ProcessResult result = served.process().wait();
  CHECK(result.status == 0);
  CHECK(result.errors.find("stopped") != std::string::npos);
  CHECK(result.errors.find("The KV cache has room for 16 requests of 65536 tokens at a time") !=
        std::string::npos);
}

namespace {

/// A placement of scripted models on simulated devices; on: the models of each.
std::string placement_of(const std::vector<std::string>& on) {
  std::string text = "version = 1\n[devices]\nnames = [\"sim:1ms\", \"sim:2ms\"]\n"
                     "memory_bytes = \"1G\"\n";
  for (const char* name : {"a", "b"})
    text += std::string("[[models]]\nname = \"") + name +
            "\"\ncheckpoint = \"scripted:context=65536\"\ndraft = \"none\"\n"
            "latency_seconds = 0.1\nmemory_bytes = \"256M\"\n";
  for (std::size_t i = 0; i < on.size(); ++i) {
    text += "[[groups]]\ndevices = [\"sim:" + std::to_string(i + 1) + "ms\"]\nmodels = [";
    for (const char model : on[i])
      text += std::string("{ name = \"") + model + "\", stage_seconds = [0.1] },";
    text += "]\n";
  }
  return text;
}

/// Two models on one group of these two devices, a stage on each, or a shard; checkpoint: of both.
std::string placement_on_two(const std::string& first, const std::string& second,
                             const std::string& checkpoint, int tensor = 1) {
  std::string text = "version = 1\n[devices]\nmemory_bytes = \"256M\"\nnames = [\"" + first +
                     "\", \"" + second + "\"]\n";
  for (const char* name : {"a", "b"})
    text += std::string("[[models]]\nname = \"") + name + "\"\ncheckpoint = \"" + checkpoint +
            "\"\ndraft = \"none\"\nlatency_seconds = 0.1\nmemory_bytes = \"200M\"\n";
  const std::string stages = tensor == 1 ? "[0.05, 0.05]" : "[0.05]";
  return text + "[[groups]]\ndevices = [\"" + first + "\", \"" + second +
         "\"]\npipeline = " + std::to_string(2 / tensor) + "\ntensor = " + std::to_string(tensor) +
         "\nmodels = [{ name = \"a\", stage_seconds = " + stages +
         " }, { name = \"b\", stage_seconds = " + stages + " }]\n";
}

std::string body_for(const std::string& model, int tokens) {
  return R"({"prompt": [1], "ignore_eos": true, "stream": true, "model": ")" + model +
         R"(", "max_tokens": )" + std::to_string(tokens) + "}";
}

} // namespace

TEST_CASE("a placement is served, read again at SIGHUP, and SIGTERM lets all its models finish") {
  const TemporaryFolder folder;
  const std::string file = folder.write("placed.toml", placement_of({"a", "b"}));
  Served served({}, {}, {}, {"--placement", file, "--warmup", "0"});
  const auto models = [&] { return HttpClient(served.port()).ask("GET", "/v1/models").body; };
  CHECK(models().find(R"("devices":["sim:1ms"])") != std::string::npos);
  CHECK(HttpClient(served.port()).ask("POST", "/v1/load", R"({"model": "a"})").status ==
        403); // there is no admin's key
  folder.write("placed.toml", placement_of({"ab", ""}));
  served.process().send(SIGHUP);
  while (models().find("sim:2ms") != std::string::npos ||
         models().find("\"b\"") == std::string::npos)
    std::this_thread::yield();
  folder.write("placed.toml", "version = 7");
  served.process().send(SIGHUP); // is told, and changes nothing
  std::vector<std::unique_ptr<HttpClient>> streams;
  for (const char* model : {"a", "b", "a"}) {
    streams.push_back(std::make_unique<HttpClient>(served.port()));
    streams.back()->send("POST", "/v1/completions", body_for(model, 200));
    CHECK(streams.back()->read_head().status == 200);
  }
  served.process().send(SIGTERM);
  for (const auto& stream : streams)
    CHECK(stream->read_events().back().at("choices").at(0).at("finish_reason") == "length");
  const ProcessResult result = served.process().wait();
  CHECK(result.status == 0);
  CHECK(result.errors.find("placed.toml, line 1: the file: version is out of bounds") !=
        std::string::npos);
  CHECK(result.errors.find("The KV cache has room for") != std::string::npos);
  CHECK(result.errors.find("unloaded") != std::string::npos);
}

TEST_CASE("a placement's group of two devices serves its models in two stages or shards") {
  const TemporaryFolder folder;
  const std::vector<std::vector<std::string>> all{{"sim:1ms", "sim:2ms", "scripted:context=65536"},
                                                  {"cpu:0", "cpu:1", "demo"}};
  for (std::size_t i = 0; i < 2 * all.size(); ++i) {
    const auto& on = all[i / 2];
    const int tensor = 1 + int(i % 2);
    CAPTURE(on[0]);
    CAPTURE(tensor);
    const std::string file =
        folder.write("placed.toml", placement_on_two(on[0], on[1], on[2], tensor));
    Served served({}, {}, {}, {"--placement", file, "--warmup", "0"});
    const auto ask = [&](const std::string& body) {
      HttpClient client(served.port());
      client.send("POST", "/v1/completions", body);
      CHECK(client.read_head().status == 200);
      return client.read_events().back();
    };
    for (const char* model : {"a", "b"})
      CHECK(ask(body_for(model, 20)).at("choices").at(0).at("finish_reason") == "length");
    const std::string models = HttpClient(served.port()).ask("GET", "/v1/models").body;
    CHECK(models.find("\"devices\":[\"" + on[0] + "+" + on[1] + "\"]") != std::string::npos);
    served.process().send(SIGTERM);
    CHECK(served.process().wait().status == 0);
  }
}

TEST_CASE("Ctrl-C ends a placement's engines") {
  const TemporaryFolder folder;
  const std::string file = folder.write("placed.toml", placement_of({"a", "b"}));
  Served served({}, {}, {}, {"--placement", file, "--drain-timeout", "0"});
  HttpClient stream(served.port());
  stream.send("POST", "/v1/completions", body_for("b", 60'000));
  CHECK(stream.read_head().status == 200);
  CHECK(served.end(SIGINT).status == 130);
}

TEST_CASE("a placement that cannot be served is refused in a line") {
  const TemporaryFolder folder;
  const auto check_file = [&](const std::string& text, const std::string& word,
                              std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--port", "0", "--log-level", "off", "--placement",
                             folder.write("placed.toml", text)});
    check_refused(more, word);
  };
  const std::string sound = placement_of({"a", "b"});
  check_file(placement_on_two("cpu:0", "sim:2ms", "scripted:", 2), "plan with --max-tensor 1");
  check_file(sound, "--model is for one model", {"--model", "other"});
  check_file(placement_of({"ab"}), "needs 536870912 bytes", {"--device-memory", "300M"});
  check_file("version = 1", "has no [devices]");
  std::string small_one = sound;
  for (auto at = small_one.find("256M"); at != std::string::npos; at = small_one.find("256M"))
    small_one.replace(at, 4, "1");
  check_file(small_one, "could be loaded");
  check_refused({"--placement", "/no/such/file"}, "/no/such/file");
}

TEST_CASE("both doors are opened by options or a file, and SIGTERM lets both finish") {
  const TemporaryFolder folder;
  const std::string config = folder.write("serve.toml", "grpc-port = 0\n");
  Served served({"--config", config, "--device", "sim:1ms"});
  const std::string begin = "grpc://127.0.0.1:";
  while (served.process().output().find(begin) == std::string::npos ||
         !served.process().output().ends_with('\n'))
    served.process().read_output(served.process().output().size() + 1);
  const std::string& output = served.process().output();
  const auto port = std::uint16_t(std::stoi(output.substr(output.find(begin) + begin.size())));
  asio::io_context io(1);
  paceline::Client client(io.get_executor(), Remote::at({}, port));
  auto submitted = client.async_submit(prompt(200), asio::use_future);
  io.run();
  auto stream = submitted.get();
  REQUIRE(stream);
  HttpClient http(served.port());
  http.send("POST", "/v1/completions", R"({"prompt": [1], "max_tokens": 200, "stream": true})");
  CHECK(http.read_head().status == 200);
  served.process().send(SIGTERM);
  CHECK(http.read_events().back().at("choices").at(0).at("finish_reason") == "length");
  const auto ended = run(io, read_stream(std::move(*stream))).end();
  CHECK((ended.reason == paceline::FinishReason::length));
  CHECK(served.process().wait().status == 0);
}

TEST_CASE("Ctrl-C ends a server in the same order, with the status of Ctrl-C") {
  Served served;
  HttpClient idle(served.port());
  CHECK(idle.ask("POST", "/v1/completions", small).status == 200);
  CHECK(served.end(SIGINT).status == 130);
}

TEST_CASE("a service manager is told when it is ready and when it stops") {
  const TemporaryFolder folder;
  asio::io_context io;
  using Datagrams = asio::local::datagram_protocol;
  Datagrams::socket manager(io, Datagrams::endpoint(folder.file("notify")));
  Served served({}, {"NOTIFY_SOCKET=" + folder.file("notify")});
  std::array<char, 64> news{};
  const auto receive = [&] {
    return std::string(news.data(), manager.receive(asio::buffer(news)));
  };
  CHECK(receive() == "READY=1");
  CHECK(served.end(SIGTERM).status == 0);
  CHECK(receive() == "STOPPING=1");
}

TEST_CASE("what keeps a server from starting is one line that says how to mend it") {
  asio::io_context io;
  const asio::ip::tcp::acceptor taken(io, {asio::ip::address_v4::loopback(), 0});
  check_refused({"--port", std::to_string(taken.local_endpoint().port())}, "another program");
  check_refused({"--host", "192.0.2.1"}, "--host");
  check_refused({"--host", "no such host"}, "--host");
  check_refused({"--port", "65536"}, "65535");
  check_refused({"--port", "0", "--grpc-port", std::to_string(taken.local_endpoint().port())},
                "--grpc-port");
  check_refused({"--api-key-file", "/no/such/file"}, "/no/such/file");
  check_refused({"--tls-cert", "/no/such/file", "--tls-key", "x"}, "/no/such/file");
  check_refused({"--tls-cert", "x"}, "--tls-key");
  check_refused({"--config", "/no/such/file"}, "/no/such/file");
  check_refused({"-m", "/no/such/model", "--port", "0", "--log-level", "off"}, "/no/such/model");
  check_refused({"--log-level", "loud"}, "loud");
}

namespace {

/// Each line of a log, which must be an object.
std::vector<boost::json::object> json_lines(const std::string& log) {
  std::vector<boost::json::object> lines;
  std::istringstream text(log);
  for (std::string line; std::getline(text, line);) {
    INFO(line);
    boost::system::error_code wrong;
    const auto value = boost::json::parse(line, wrong);
    REQUIRE(!wrong);
    lines.push_back(value.as_object());
  }
  return lines;
}

} // namespace

TEST_CASE("with --log-json all that is said is JSON, what ends the program, too") {
  const auto refused =
      run_process(serve_command({"--port", "0", "--kv-memory", "1K", "--log-json"}));
  CHECK(refused.status == 2);
  CHECK(json_lines(refused.errors).back().at("event") == "failed");
  CHECK(run_process(serve_command({"--port", "0", "--kv-memory", "1K"})).status == 2);
  const auto nobody = run_process(serve_command({"--host", "192.0.2.1", "--log-json"}));
  CHECK(nobody.status == 2);
  CHECK(json_lines(nobody.errors).size() == 1);
  Served served({"--log-json"});
  CHECK(HttpClient(served.port()).ask("POST", "/v1/completions", small).status == 200);
  CHECK(HttpClient(served.port()).ask("GET", "/%ff").status == 404);
  const std::string log = served.end(SIGTERM).errors;
  CHECK(json_lines(log).size() > 3);
  const auto at = log.find("\"milliseconds\":");
  REQUIRE(at != std::string::npos);
  const std::string number = log.substr(at + 15, log.find_first_of(",}", at) - at - 15);
  CHECK(number.find_first_not_of("0123456789.") == std::string::npos);
}

TEST_CASE("a node's way goes into the server's log") {
  Process node({PACELINE_PROGRAM, "node", "--listen", "127.0.0.1:0"});
  node.close_input();
  while (node.output().find(' ') == std::string::npos)
    node.read_output(node.output().size() + 1);
  const std::string address = node.output().substr(0, node.output().find(' '));
  Served served({"--log-json", "--draft-device", address + "/cpu"}, {}, {}, {});
  node.send(SIGKILL);
  node.wait();
  HttpClient client(served.port());
  CHECK(client.ask("POST", "/v1/completions", R"({"prompt": "def", "max_tokens": 3})").status ==
        200);
  bool told = false;
  for (const auto& line : json_lines(served.end(SIGTERM).errors))
    told |= line.at("event") == "engine" && line.at("model") == "demo" &&
            line.at("what").as_string().starts_with("no drafts from " + address);
  CHECK(told);
}

TEST_CASE("options come from a file, and the command line goes first") {
  const TemporaryFolder folder;
  const std::string config = folder.write("serve.toml", "# a comment\n"
                                                        "served-model-name = [\"a\", \"b\"]\n"
                                                        "log-json = true\n"
                                                        "max-body = \"1K\"\n"
                                                        "max-prompt-tokens = 1\n"
                                                        "log-level = \"info\"\n");
  Served served({"--config", config, "--max-prompt-tokens", "4"});
  HttpClient client(served.port());
  CHECK(client.ask("GET", "/v1/models/b").status == 200);
  CHECK(client.ask("POST", "/v1/completions", R"({"prompt": [1, 2, 3, 4]})").status == 200);
  CHECK(client.ask("POST", "/v1/completions", R"({"prompt": [1, 2, 3, 4, 5]})").status == 400);
  CHECK(client.ask("POST", "/v1/completions", std::string(2000, ' ')).status == 413);
  const ProcessResult result = served.end(SIGTERM);
  CHECK(result.status == 0);
  for (std::size_t at = 0; at < result.errors.size(); at = result.errors.find('\n', at) + 1)
    CHECK(result.errors[at] == '{');
}

TEST_CASE("what a configuration file says and is not understood is named, with its line") {
  const TemporaryFolder folder;
  const auto check_config = [&](const std::string& text, const std::string& line,
                                const std::string& word) {
    CAPTURE(text);
    check_refused({"--config", folder.write("serve.toml", text)}, word);
    check_refused({"--config", folder.write("serve.toml", text)}, line);
  };
  check_config("prot = 7\n", "line 1", "prot");
  check_config("log-json = true\nport = 70000\n", "line 2", "port cannot be '70000'");
  check_config("log-json = \"maybe\"\n", "line 1", "log-json");
  check_config("[security]\napi-key-file = \"keys\"\n", "line 1", "security");
  check_config("security.api-key-file = \"keys\"\n", "line 1", "security");
  check_config("[serve]\nport = 0\n[serve.tls]\n", "line 3", "tls");
  check_config("port = 0\nport = 1\n", "line 2", "port");
  check_config("port = 0\n[serve]\nport = 1\n", "line 3", "port");
  check_config("port = [1, 2]\n", "line 1", "port");
  check_config("host = []\n", "line 1", "host");
  check_config("# a comment\nmodel = [\"a\",\n", "line", "TOML");
  check_config("model = unquoted\n", "line 1", "TOML");
  check_config("x = 1", "line 1", "x");
  check_config("fork-rows = 1.5", "line 1", "fork-rows");
  check_config("config = \"another\"\n", "line 1", "config");
  check_refused({"--config", folder.write("draft", "draft-model = \"\"\nspeculation = \"sync\"\n")},
                "--draft-model");
}

TEST_CASE("a key file whose name has a # in it keeps a server closed, as does one in a section") {
  const TemporaryFolder folder;
  const std::string keys = folder.write("keys#1", "secret\n");
  for (const char* section : {"", "[serve]\n"}) {
    const std::string text = section + ("api-key-file = \"" + keys + "\" # who may ask\n");
    Served served({"--config", folder.write("serve.toml", text)});
    CHECK(HttpClient(served.port()).ask("GET", "/v1/models").status == 401);
    CHECK(served.end(SIGTERM).status == 0);
  }
}

TEST_CASE("SIGHUP reads the keys again, and keeps the old ones where that cannot be") {
  const TemporaryFolder folder;
  const std::string keys = folder.write("keys", "old\n");
  Served served({"--api-key-file", keys});
  HttpClient client(served.port());
  const auto status = [&](const std::string& key) {
    return client.ask("GET", "/v1/models", "", {{"Authorization", "Bearer " + key}}).status;
  };
  CHECK(status("old") == 200);
  CHECK(status("new") == 401);
  folder.write("keys", "new\n");
  served.process().send(SIGHUP);
  while (status("new") != 200)
    std::this_thread::yield();
  CHECK(status("old") == 401);
  std::filesystem::remove(keys);
  served.process().send(SIGHUP);
  CHECK(status("new") == 200);
  const ProcessResult result = served.end(SIGTERM);
  CHECK(result.status == 0);
  CHECK(result.errors.find("error reload ") != std::string::npos);
  const auto said = result.errors.find(" reloaded ");
  CHECK(said != std::string::npos);
  CHECK(result.errors.find(" reloaded ", said + 1) == std::string::npos); // once, of two times
}

TEST_CASE("a server without files for more connections says so once, and goes on when there are") {
  Served served({}, {}, {"/usr/bin/prlimit", "--nofile=64:64"});
  HttpClient first(served.port());
  CHECK(first.ask("GET", "/health").status == 200);
  std::vector<std::unique_ptr<HttpClient>> more;
  while (more.size() < 80) // the system takes them, the server cannot
    more.push_back(std::make_unique<HttpClient>(served.port()));
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() < begin + 5 * paceline::apps::limits::accept_pause)
    CHECK(first.ask("GET", "/health").status == 200);
  more.clear();
  CHECK(HttpClient(served.port()).ask("GET", "/health").status == 200);
  const std::string log = served.end(SIGTERM).errors;
  std::size_t told = 0;
  for (auto at = log.find(" accept "); at != std::string::npos; at = log.find(" accept ", at + 1))
    ++told;
  CHECK(told == 1);
}

TEST_CASE("a server whose trace cannot be written says so in the end") {
  Served served({"--trace", "/dev/full", "--log-level", "off"});
  HttpClient client(served.port());
  CHECK(client.ask("POST", "/v1/completions", small).status == 200);
  const ProcessResult result = served.end(SIGTERM);
  CHECK(result.status == 1);
  CHECK(result.errors.starts_with("paceline: cannot write /dev/full"));
}

TEST_CASE("the log has requests' ids and counts, and neither texts nor keys") {
  const TemporaryFolder folder;
  const std::string keys = folder.write("keys", "the-secret-key\n");
  const std::string body = R"({"prompt": "the private prompt", "max_tokens": 3})";
  const HttpClient::Headers headers{{"Authorization", "Bearer the-secret-key"},
                                    {"X-Request-Id", "request-7"}};
  const auto log_of = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"--api-key-file", keys};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Served served(arguments);
    HttpClient client(served.port());
    client.ask("POST", "/v1/completions", body, headers);
    client.ask("POST", "/v1/completions?key=in-the-query", body,
               {{"Authorization", "Bearer wrong-key"}});
    return served.end(SIGTERM).errors;
  };
  const std::string log = log_of({});
  INFO(log);
  CHECK(log.find("id=request-7") != std::string::npos);
  CHECK(log.find("status=401") != std::string::npos);
  for (const char* secret : {"secret-key", "wrong-key", "in-the-query", "private prompt"})
    CHECK(log.find(secret) == std::string::npos);
  CHECK(log_of({"--log-prompts"}).find("private prompt") != std::string::npos);
}
