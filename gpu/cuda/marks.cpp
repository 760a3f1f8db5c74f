#include "gpu/cuda/marks.hpp"

#include <cstdint>
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

namespace paceline::gpu::cuda {
namespace {

nvtxDomainHandle_t domain() {
  static nvtxDomainHandle_t const domain = nvtxDomainCreateA("paceline");
  return domain;
}

} // namespace

void name_thread(const std::string& name) {
  nvtxNameOsThreadA(std::uint32_t(gettid()), name.c_str());
}

Range::Range(const std::string& name, int rows) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name.c_str();
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT32;
  attributes.payload.iValue = rows;
  nvtxDomainRangePushEx(domain(), &attributes);
}

Range::~Range() {
  nvtxDomainRangePop(domain());
}

} // namespace paceline::gpu::cuda
