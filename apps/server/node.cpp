// paceline node: offers this machine's devices to engines on others.
#include "nodes/node.hpp"
#include "apps/console/command.hpp"
#include "apps/console/options.hpp"
#include "apps/console/output.hpp"
#include "apps/server/node/certificates.hpp"
#include "nodes/model_cache.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps {
namespace {

struct Options {
  std::string listen;
  std::vector<std::string> certificates; ///< Folder to make them in, and machines; nothing else.
  nodes::NodeOptions node;
};

std::string copying_text(const std::string& what, const std::string& from) {
  return fmt::format("Copy {1} to {0}, and give there\n"
                     "  node:     --tls-cert {1}/certificate.pem --tls-key {1}/key.pem --tls-ca "
                     "{1}/authority.pem\n"
                     "  generate: --node-cert {1}/certificate.pem --node-key {1}/key.pem --node-ca "
                     "{1}/authority.pem\n",
                     what, from);
}

Result<int> make(const std::vector<std::string>& arguments) {
  const std::string& folder = arguments.front();
  return read_machines({arguments.begin() + 1, arguments.end()})
      .and_then([&](const std::vector<Machine>& machines) {
        return make_certificates(folder, machines).and_then([&] {
          if (machines.empty())
            return print_text(copying_text("each machine", folder));
          std::string text;
          for (const Machine& machine : machines)
            text += copying_text(machine.hosts.front(), folder + "/" + machine.hosts.front());
          return print_text(text);
        });
      });
}

Result<int> run(Options& options, Interrupt& interrupt) {
  if (!options.certificates.empty())
    return make(options.certificates);
  if (options.listen.empty())
    return fail(ErrorCode::invalid_argument, "the node is not told where to listen",
                "give --listen, such as 127.0.0.1:7000");
  const auto endpoint = nodes::parse_endpoint("--listen", options.listen);
  if (!endpoint)
    return tl::unexpected(endpoint.error());
  options.node.listen = *endpoint;
  auto node = nodes::Node::open(options.node);
  if (!node) {
    print_error(node.error());
    return status_usage; // This is the status for whatever kept it from starting.
  }
  std::promise<void> ended;
  const auto scope = interrupt.on_first([&] { ended.set_value(); });
  const nodes::Endpoint reached{endpoint->host, (*node)->port()};
  const auto printed =
      print_text(fmt::format("node://{} {}\n", reached.text(), fmt::join((*node)->devices(), " ")));
  if (!printed)
    return printed;
  ended.get_future().wait();
  return status_interrupted;
}

constexpr const char* footer = R"(Examples:
  paceline node --listen 127.0.0.1:7000 --device cpu:1
  paceline generate "def fib(n):" --device cpu:0 --draft-device node://127.0.0.1:7000/cpu:1
  paceline generate "def fib(n):" --device cpu:0 --device node://127.0.0.1:7000/cpu:1
  paceline node --listen 127.0.0.1:7000 --accept-models 20G
  paceline node --make-certificates ~/tls here there,192.168.1.7
  paceline node --listen 0.0.0.0:7000 -m ~/models/small --tls-cert ~/tls/there/certificate.pem \
    --tls-key ~/tls/there/key.pem --tls-ca ~/tls/there/authority.pem

One line with its address and devices goes to standard output once it is ready. Anything but this
machine's own loopback needs certificates. See docs/machines.md.
Exit status: 130 after Ctrl-C, 2 where it could not start.)";

void add_tls_options(CLI::App& app, NodeTls& tls) {
  app.option_defaults()->group("Certificates");
  app.add_option("--tls-cert", tls.certificate, "What this machine shows to others (PEM)")
      ->type_name("FILE");
  app.add_option("--tls-key", tls.key, "And its key")->type_name("FILE");
  app.add_option("--tls-ca", tls.authority, "Who signs the certificates of both ends")
      ->type_name("FILE");
}

} // namespace

Command add_node(CLI::App& program) {
  auto* app = program.add_subcommand(
      "node", "Draft, or have layers of a target, for engines on other machines");
  auto options = std::make_shared<Options>();
  app->add_option("--listen", options->listen, "Where engines connect; port 0: one that is free")
      ->type_name("HOST:PORT");
  app->add_option("--device", options->node.devices,
                  "cpu, cpu:0-3 or cuda:0; several: one after the other")
      ->capture_default_str()
      ->type_name("DEVICE");
  app->add_option(
         "-m,--model", options->node.models,
         "Drafts: folders, names that paceline list shows, or demo; each is loaded on each device")
      ->capture_default_str()
      ->type_name("MODEL");
  app->add_option("--target", options->node.targets,
                  "Targets, of which engines may have layers here (their --device node://...): "
                  "folders, names or demo; layers are loaded when an engine asks for them")
      ->capture_default_str()
      ->type_name("MODEL");
  app->add_option("--kv-memory", options->node.kv_memory_bytes,
                  "For the KV cache of each engine, of drafts or layers; default: 256M")
      ->transform(memory_size())
      ->type_name("SIZE");
  app->add_option("--accept-models", options->node.accept_models_bytes,
                  "Take models that engines send where the node lacks them, and keep files of so "
                  "much at most; they take as much memory, too. Default: none are taken")
      ->transform(memory_size())
      ->type_name("SIZE");
  app->add_option("--model-cache", options->node.model_cache,
                  "Where they are kept; default: " + nodes::default_model_cache())
      ->type_name("DIR");
  add_tls_options(*app, options->node.tls);
  app->add_option(
         "--make-certificates", options->certificates,
         "Make certificates in a new folder, and end: one for each machine, which is named "
         "by its host names and addresses with commas between; without any one for all")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->type_name("DIR [HOST,... ...]");
  app->footer(footer);
  return {app, [options](Interrupt& interrupt) { return run(*options, interrupt); }};
}

} // namespace paceline::apps
