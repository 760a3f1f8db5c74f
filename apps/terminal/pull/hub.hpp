// The hub: a model's list of files, and each of them, by the paths of huggingface.co.
#pragma once

#include "apps/terminal/pull/transfer.hpp"
#include "paceline/error.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps::pull {

/// The address of a hub, and what shows who asks it.
struct HubAccess {
  std::string endpoint = "https://huggingface.co";
  std::string token{}; ///< Empty: what everybody may read.

  /// Reads HF_ENDPOINT and HF_TOKEN. Error: one of them cannot be used.
  static Result<HubAccess> from_environment();
};

/// A file as the hub lists it.
struct HubFile {
  std::string path; ///< Within the model; safe to be used below a folder.
  std::uint64_t size = 0;
  /// The digest that the content must have, in hex: SHA-256, or git's, which is the SHA-1 of a
  /// header and the content.
  std::string digest{};
  bool is_sha256 = false;

  /// Returns the path without its folders.
  std::string name() const { return path.substr(path.rfind('/') + 1); }
};

/// What is asked for.
struct HubModel {
  std::string id; ///< "org/name"
  std::string revision = "main";
};

/// A client of a hub, which makes requests one after the other, and those that failed for reasons
/// that pass again. remark: is called with a line for people before a pause. Errors: `unavailable`
/// where it may work later, else what is wrong with the model's name, its revision or the token;
/// `cancelled` once it is stopped.
class Hub {
public:
  Hub(HubAccess access, std::stop_token stop, std::function<void(const std::string&)> remark);

  /// Returns all files of the model. Error also: a name that could leave a folder.
  Result<std::vector<HubFile>> files(const HubModel& model);
  /// Brings the rest of a file, from receiver.have() on.
  Result<void> fetch(const HubModel& model, const HubFile& file, Receiver& receiver);

  const std::string& endpoint() const { return access_.endpoint; }

private:
  Result<Reply> ask(const HubModel& model, const std::string& url, Receiver& receiver);
  Result<void> pause(const Reply& reply, int failures);

  HubAccess access_;
  std::stop_token stop_;
  std::function<void(const std::string&)> remark_;
  Transfer transfer_;
  bool reached_ = false; ///< Whether the hub has ever answered.
};

/// Returns the error of an answer without the body that was asked for, or of none.
Error hub_error(const HubAccess& access, const HubModel& model, const Reply& reply);

/// Reads a page of the list. Error: it is no such list, or names files that it must not.
Result<std::vector<HubFile>> parse_hub_list(std::string_view json);

/// Returns the URL of the next page that a "Link" header names; empty: there is none.
std::string next_page(const std::string& link);

/// Whether a path of the hub's stays below the folder that it is put into.
bool is_safe_path(std::string_view path);

} // namespace paceline::apps::pull
