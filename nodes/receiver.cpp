#include "nodes/receiver.hpp"

#include "nodes/peer.hpp"

namespace paceline::nodes {

using namespace messages;

Receiver::Receiver(Handle::pointer self, std::shared_ptr<ModelCache> cache, SendModel what,
                   LinkActor link)
    : self_(self), cache_(std::move(cache)), what_(std::move(what)), link_(std::move(link)) {
  tell(self_, self_, Wake{});
}

Receiver::Handle::behavior_type Receiver::make_behavior() {
  return {[this](const Wake&) { begin(); }, [this](const ModelPart& part) { take(part); }};
}

void Receiver::refuse(const Error& why) {
  arrival_ = nullptr; // Another engine may now try.
  tell(self_, link_, Refused{why, false});
}

/// Begins to take a model. The files that have arrived before have to be read, which takes time.
void Receiver::begin() {
  if (cache_->find(what_.identity))
    return tell(self_, link_, ModelStored{});
  auto arrival = cache_->begin(what_);
  if (!arrival)
    return refuse(arrival.error());
  arrival_ = std::move(*arrival);
  const auto whole = arrival_->settle();
  if (!whole)
    return refuse(whole.error());
  if (*whole) {
    arrival_ = nullptr;
    return tell(self_, link_, ModelStored{});
  }
  tell(self_, link_, ModelWanted{arrival_->present()});
}

void Receiver::take(const ModelPart& part) {
  if (!arrival_)
    return; // Parts are still under way when the model is refused.
  const auto whole = arrival_->take(part);
  if (!whole)
    return refuse(whole.error());
  tell(self_, link_, ModelTaken{});
  if (!*whole)
    return;
  arrival_ = nullptr;
  tell(self_, link_, ModelStored{});
}

} // namespace paceline::nodes
