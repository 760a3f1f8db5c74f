#include "apps/console/survey.hpp"

#include "apps/console/output.hpp"
#include "nodes/survey.hpp"
#include "text/json.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <fmt/format.h>

namespace paceline::apps {
namespace {

using messages::NodeDevice;
using messages::Surveyed;

/// Returns the device's name as options take it.
std::string full_name(const nodes::Endpoint& node, const std::string& device) {
  return fmt::format("node://{}/{}", node.text(), text::shown(device));
}

boost::json::object json_of(const nodes::Endpoint& node, const Surveyed& all) {
  boost::json::array devices;
  for (const NodeDevice& device : all.devices)
    devices.push_back({{"name", full_name(node, device.name)},
                       {"kernel", device.kernel},
                       {"memory_bytes", device.memory_bytes},
                       {"available_bytes", device.available_bytes}});
  boost::json::array models;
  for (const ModelInfo& model : all.models)
    models.push_back({{"name", model.name},
                      {"device", full_name(node, model.device)},
                      {"architecture", model.architecture},
                      {"parameters", model.parameters},
                      {"weights", model.weights},
                      {"weight_bytes", model.weight_bytes},
                      {"max_model_len", model.max_model_len},
                      {"vocabulary", model.vocabulary}});
  return {{"node", "node://" + node.text()}, {"devices", std::move(devices)},
          {"models", std::move(models)},     {"engines", all.engines},
          {"engines_max", all.engines_max},  {"kept_bytes", all.kept_bytes},
          {"accepts_bytes", all.kept_max}};
}

std::string text_of(const nodes::Endpoint& node, const Surveyed& all) {
  std::string text;
  for (const NodeDevice& device : all.devices)
    text += fmt::format("{}\n  kernel   {}\n  memory   {}, {} available\n",
                        full_name(node, device.name), text::shown(device.kernel),
                        human_bytes(device.memory_bytes), human_bytes(device.available_bytes));
  for (const ModelInfo& model : all.models)
    text += fmt::format("draft {}\n  device   {}\n  weights  {} as {}, {:.2f} M parameters\n"
                        "  context  {} tokens, vocabulary {}\n",
                        text::shown_path(model.name), full_name(node, model.device),
                        human_bytes(model.weight_bytes), text::shown(model.weights),
                        double(model.parameters) / 1e6, model.max_model_len, model.vocabulary);
  text += fmt::format("engines  {} of {}, this one included\n", all.engines, all.engines_max);
  if (all.kept_max > 0)
    text += fmt::format("takes models that engines send: has {} of {}\n",
                        human_bytes(all.kept_bytes), human_bytes(all.kept_max));
  else
    text += "takes no models that engines send (--accept-models)\n";
  return text;
}

} // namespace

Result<int> show_node(const std::string& node, const NodeTls& tls, bool json) {
  const auto address = actors::is_node_device(node)
                           ? nodes::parse_node_address("--node", node)
                           : nodes::parse_endpoint("--node", node).map([](auto&& endpoint) {
                               return nodes::NodeAddress{std::move(endpoint), {}};
                             });
  if (!address)
    return tl::unexpected(address.error());
  const auto all = nodes::survey_node(*address, tls);
  if (!all)
    return tl::unexpected(all.error());
  return json ? print_json(json_of(address->endpoint, *all))
              : print_text(text_of(address->endpoint, *all));
}

} // namespace paceline::apps
