// The part of NVTX that the tree uses, by the names that NVIDIA's documentation of NVTX gives.
// profiler.cpp notes what is called.
#pragma once

#include <cstdint>

using nvtxDomainHandle_t = struct nvtxDomainRegistration_st*;

inline constexpr std::uint16_t NVTX_VERSION = 3;
enum nvtxMessageType_t { NVTX_MESSAGE_TYPE_ASCII = 1 };
enum nvtxPayloadType_t { NVTX_PAYLOAD_TYPE_INT32 = 5 };

struct nvtxEventAttributes_t {
  std::uint16_t version;
  std::uint16_t size;
  std::int32_t messageType;
  union {
    const char* ascii;
  } message;
  std::int32_t payloadType;
  union {
    std::int32_t iValue;
  } payload;
};
inline constexpr std::uint16_t NVTX_EVENT_ATTRIB_STRUCT_SIZE = sizeof(nvtxEventAttributes_t);

nvtxDomainHandle_t nvtxDomainCreateA(const char* name);
int nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes);
int nvtxDomainRangePop(nvtxDomainHandle_t domain);
void nvtxNameOsThreadA(std::uint32_t thread, const char* name);
