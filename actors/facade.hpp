// The engine facade actor: guards the requests. An adapter around scheduling/requests.hpp.
#pragma once

#include "messages/interfaces.hpp"
#include "scheduling/requests.hpp"

#include <vector>

namespace paceline::actors {

using FacadeParts = scheduling::Requests::Config;

/// The actor. Every request ends exactly once, at the latest when this actor does.
class Facade {
public:
  using Handle = messages::FacadeActor;
  static constexpr const char* name = "facade";

  Facade(Handle::pointer self, FacadeParts parts);
  ~Facade();
  Handle::behavior_type make_behavior();

private:
  void carry_out(scheduling::Requests::Actions actions);
  void act(scheduling::Admit& request);
  void act(scheduling::Abandon& request);
  void act(scheduling::WakeAfter& alarm);
  void update(const messages::ActorHandles& handles);
  base::TimePoint now() const;

  Handle::pointer self_;
  std::shared_ptr<base::Telemetry> telemetry_;
  scheduling::Requests requests_;
  messages::SchedulerActor scheduler_;
  std::uint64_t handles_version_ = 0;
  std::string ends_of_; ///< The actor that kept failing, if the engine ends because of that.
  std::vector<caf::typed_response_promise<messages::Drained>> drained_; ///< Who waits for a drain.
};

} // namespace paceline::actors
