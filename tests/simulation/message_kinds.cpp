#include "tests/simulation/message_kinds.hpp"

#include "messages/interfaces.hpp"

#include <array>

namespace paceline::testing {
namespace {

using namespace messages;
using namespace scheduling;
using namespace speculation;

template <class Message>
constexpr MessageKind kind(const char* name, bool in_any_order) {
  return {name,
          [](const caf::type_erased_tuple& content) {
            return content.size() == 1 && content.match_element<Message>(0);
          },
          in_any_order};
}

constexpr std::array kinds{
    kind<Batch>("Batch", true),
    kind<Logits>("Logits", true),
    kind<StagePass>("StagePass", true),
    kind<Verdicts>("Verdicts", true),
    kind<Commits>("Commits", true),
    kind<Wake>("Wake", true),
    kind<Frontiers>("Frontiers", true),
    kind<Forget>("Forget", true),
    kind<WindowsReady>("WindowsReady", true),
    kind<ActorHandles>("ActorHandles", true),
    kind<Cancel>("Cancel", true),
    kind<Failed>("Failed", true),
    kind<Borrow>("Borrow", true),
    kind<DisableDraft>("DisableDraft", true),
    kind<MoveTarget>("MoveTarget", true),
    kind<Submit>("Submit", false),
    kind<Admit>("Admit", false),
    kind<Abandon>("Abandon", false),
    kind<KvReserve>("KvReserve", false),
    kind<KvGrow>("KvGrow", false),
    kind<KvRelease>("KvRelease", false),
    kind<KvPublish>("KvPublish", false),
    kind<KvReset>("KvReset", false),
    kind<StageArrived>("StageArrived", false),
    kind<StageRows>("StageRows", false),
    kind<StageDone>("StageDone", false),
};
constexpr std::size_t remote_kinds = 3; // the last of them

} // namespace

std::span<const MessageKind> message_kinds() {
  return kinds;
}

std::span<const MessageKind> local_message_kinds() {
  return std::span(kinds).first(kinds.size() - remote_kinds);
}

int kind_of(const caf::type_erased_tuple& content) {
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (kinds[i].matches(content))
      return int(i);
  return -1;
}

} // namespace paceline::testing
