#include "apps/server/node/certificates.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cctype>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace paceline::apps {
namespace {

template <class T, void (*release)(T*)>
struct Release {
  void operator()(T* what) const { release(what); }
};
using Key = std::unique_ptr<EVP_PKEY, Release<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Release<X509, X509_free>>;

constexpr long valid_seconds = 10L * 365 * 24 * 3600;

void set_random_serial(X509* certificate) {
  unsigned char bytes[16];
  RAND_bytes(bytes, sizeof bytes);
  bytes[0] &= 0x7f;
  const std::unique_ptr<BIGNUM, Release<BIGNUM, BN_free>> number(
      BN_bin2bn(bytes, sizeof bytes, nullptr));
  BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate));
}

void add_extension(X509* certificate, X509* issuer, int id, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, id, value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

bool is_address(const std::string& host) {
  in6_addr any{};
  return ::inet_pton(AF_INET, host.c_str(), &any) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

/// Returns the names as OpenSSL's configuration writes them. The hosts were checked before.
std::string alternative_names(const std::vector<std::string>& hosts) {
  std::string names;
  for (const std::string& host : hosts)
    names += (names.empty() ? "" : ",") + std::string(is_address(host) ? "IP:" : "DNS:") + host;
  return names;
}

/// Makes a certificate. issuer: null for an authority, which signs itself and others.
Certificate certify(const char* name, EVP_PKEY* key, X509* issuer, EVP_PKEY* issuer_key,
                    const std::vector<std::string>& hosts = {}) {
  Certificate made(X509_new());
  X509_set_version(made.get(), 2); // X.509 v3
  set_random_serial(made.get());
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600); // The machines' clocks may differ.
  X509_gmtime_adj(X509_getm_notAfter(made.get()), valid_seconds);
  X509_set_pubkey(made.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  X509* const signer = issuer ? issuer : made.get();
  X509_set_issuer_name(made.get(), X509_get_subject_name(signer));
  add_extension(made.get(), signer, NID_basic_constraints,
                issuer ? "critical,CA:FALSE" : "critical,CA:TRUE");
  if (!hosts.empty())
    add_extension(made.get(), signer, NID_subject_alt_name, alternative_names(hosts).c_str());
  X509_sign(made.get(), issuer_key, EVP_sha256());
  return made;
}

tl::unexpected<Error> cannot_write(const std::string& path) {
  return fail(ErrorCode::invalid_argument, "cannot write " + path,
              "give a new folder where this user may write");
}

/// Writes a file that did not exist before, readable by its owner alone.
template <class Write>
Result<void> write_file(const std::string& path, const Write& write) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0)
    return cannot_write(path);
  const std::unique_ptr<BIO, Release<BIO, BIO_free_all>> to(BIO_new_fd(file, BIO_CLOSE));
  if (!write(to.get()))
    return cannot_write(path);
  return {};
}

struct Authority {
  Key key{EVP_EC_gen("P-256")};
  Certificate certificate;
};

Result<void> make_folder(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    return cannot_write(folder);
  return {};
}

/// Writes the three files of one machine.
Result<void> write_machine(const std::string& folder, const Authority& authority,
                           const std::vector<std::string>& hosts) {
  const Key key(EVP_EC_gen("P-256"));
  if (!key)
    return fail(ErrorCode::internal, "OpenSSL makes no keys");
  const Certificate certificate = certify("Paceline machine", key.get(),
                                          authority.certificate.get(), authority.key.get(), hosts);
  const auto pem_of = [](X509* of) {
    return [of](BIO* to) { return PEM_write_bio_X509(to, of) == 1; };
  };
  return make_folder(folder)
      .and_then([&] {
        return write_file(folder + "/authority.pem", pem_of(authority.certificate.get()));
      })
      .and_then([&] { return write_file(folder + "/certificate.pem", pem_of(certificate.get())); })
      .and_then([&] {
        return write_file(folder + "/key.pem", [&](BIO* to) {
          return PEM_write_bio_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr) ==
                 1;
        });
      });
}

/// Whether the text is an address, or a name of the Domain Name System, whose first part may be a
/// *.
bool is_host(const std::string& text) {
  if (is_address(text))
    return true;
  const std::string name = text.starts_with("*.") ? text.substr(2) : text;
  return !name.empty() && name.size() <= 253 && !name.starts_with('.') && !name.starts_with('-') &&
         std::ranges::all_of(name, [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
         });
}

} // namespace

Result<std::vector<Machine>> read_machines(const std::vector<std::string>& texts) {
  std::vector<Machine> machines;
  std::set<std::string> folders;
  for (const std::string& text : texts) {
    Machine machine;
    std::istringstream parts(text);
    for (std::string host; std::getline(parts, host, ',');) {
      if (!is_host(host))
        return fail(ErrorCode::invalid_argument, "\"" + host + "\" is no host",
                    "give names or addresses as engines dial them, such as there,192.168.1.7");
      machine.hosts.push_back(host);
    }
    if (machine.hosts.empty() || !folders.insert(machine.hosts.front()).second)
      return fail(ErrorCode::invalid_argument, "\"" + text + "\" is no machine, or is there twice",
                  "name each machine once, by its names and addresses with commas between");
    machines.push_back(std::move(machine));
  }
  return machines;
}

Result<void> make_certificates(const std::string& folder, const std::vector<Machine>& machines) {
  Authority authority;
  if (!authority.key)
    return fail(ErrorCode::internal, "OpenSSL makes no keys");
  authority.certificate =
      certify("Paceline authority", authority.key.get(), nullptr, authority.key.get());
  if (machines.empty())
    return write_machine(folder, authority, {});
  for (const Machine& machine : machines)
    if (auto made = write_machine(folder + "/" + machine.hosts.front(), authority, machine.hosts);
        !made)
      return made;
  return {};
}

} // namespace paceline::apps
