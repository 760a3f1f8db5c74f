#include "actors/facade.hpp"

#include <utility>

namespace paceline::actors {

using namespace messages;
using namespace scheduling;

Facade::Facade(Handle::pointer self, FacadeParts parts)
    : self_(self), telemetry_(parts.telemetry), requests_(std::move(parts)) {}

Facade::~Facade() {
  requests_.close(now(), ends_of_);
}

FacadeActor::behavior_type Facade::make_behavior() {
  return {
      [this](const Submit& request) {
        const base::Handling span(*telemetry_, name, "submit");
        carry_out(requests_.submit(request, now()));
      },
      [this](const Cancel& request) {
        const base::Handling span(*telemetry_, name, "cancel");
        carry_out(requests_.cancel(request.request, now()));
      },
      [this](const Commits& commits) {
        const base::Handling span(*telemetry_, name, "commits");
        carry_out(requests_.committed(commits, now()));
      },
      [this](const Failed& failed) { carry_out(requests_.failed(failed, now())); },
      [this](const Drain& request) -> caf::result<Drained> {
        auto promise = self_->make_response_promise<Drained>();
        drained_.push_back(promise);
        carry_out(requests_.drain(request.limit, now()));
        return promise;
      },
      [this](const ActorHandles& handles) { update(handles); },
      [this](const Wake&) { carry_out(requests_.time_passed(now())); },
  };
}

base::TimePoint Facade::now() const {
  return self_->clock().now();
}

void Facade::update(const ActorHandles& handles) {
  if (handles.version <= handles_version_)
    return;
  handles_version_ = handles.version;
  if (handles.ended)
    ends_of_ = handles.lost;
  if (std::exchange(scheduler_, handles.scheduler) != handles.scheduler)
    carry_out(requests_.all_again());
}

void Facade::carry_out(Requests::Actions actions) {
  for (auto& action : actions)
    std::visit([this](auto& what) { act(what); }, action);
  if (!requests_.drained())
    return;
  for (auto& promise : std::exchange(drained_, {}))
    promise.deliver(Drained{});
}

void Facade::act(Admit& request) {
  tell(self_, scheduler_, std::move(request));
}
void Facade::act(Abandon& request) {
  tell(self_, scheduler_, request);
}
void Facade::act(WakeAfter& alarm) {
  tell_after(self_, alarm.delay, self_, Wake{});
}

} // namespace paceline::actors
