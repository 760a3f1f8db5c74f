// Models by their names, in folders laid out as each program lays them out.
#include "models/checkpoint/stores.hpp"
#include "models/sources.hpp"
#include "tests/models/support.hpp"
#include "tests/support/environment.hpp"

#include <doctest/doctest.h>
#include <filesystem>

using namespace paceline;
using namespace paceline::models;
using testing::Environment;

namespace {

/// A user's home without anything but what a test puts there.
class Home {
public:
  const testing::TemporaryFolder& folder() const { return folder_; }
  std::string path(const std::string& name) const { return folder_.file(name); }
  std::string write(const std::string& name, const std::string& text = "GGUF") const {
    return folder_.write(name, text);
  }
  /// What Paceline fetched.
  void pulled(const std::string& name, const std::string& file) const {
    const std::string own = ".local/share/paceline/models/" + name + "/";
    write(own + file);
    write(own + std::string(origin_file), "{}");
  }
  /// A blob of Ollama's, by a manifest; its path.
  std::string blob(const std::string& manifest, char digit) const {
    const std::string hex(64, digit);
    write(".ollama/models/manifests/" + manifest,
          R"({"layers": [{"mediaType": "application/vnd.ollama.image.template", "digest": "x"},
              {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:)" +
              hex + R"("}]})");
    return write(".ollama/models/blobs/sha256-" + hex);
  }
  std::string cached(const std::string& file) const {
    const std::string repository = ".cache/huggingface/hub/models--org--cached/";
    write(repository + "refs/main", "abc");
    return write(repository + "snapshots/abc/" + file);
  }

private:
  testing::TemporaryFolder folder_;
  Environment home_{"HOME", folder_.path()};
  Environment own_{"PACELINE_MODELS", ""};
  Environment data_{"XDG_DATA_HOME", ""};
  Environment cache_{"XDG_CACHE_HOME", ""};
  Environment hub_{"HF_HOME", ""};
  Environment hub_cache_{"HF_HUB_CACHE", ""};
  Environment ollama_{"OLLAMA_MODELS", ""};
};

std::string place(const std::string& name) {
  const auto found = resolve_model_path(name, "target");
  return found ? *found : found.error().text();
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const StoredModel& model : stored_models())
    out.push_back(std::string(to_string(model.store)) + " " + model.name.text());
  return out;
}

} // namespace

TEST_CASE("names of models are parsed, and what could leave a folder is none") {
  const auto parsed = [](const std::string& text) {
    const auto name = parse_model_name(text);
    return name ? name->base + "|" + name->variant : "none";
  };
  CHECK(parsed("org/name") == "org/name|");
  CHECK(parsed("hf:org/name:Q4_K_M") == "org/name|Q4_K_M");
  CHECK(parsed("org/name:a-b.gguf") == "org/name|a-b");
  CHECK(parsed("llama3.2:1b") == "llama3.2|1b");
  for (const char* text : {"", "hf:name", "/x", "x/", "../x", "x/..", "a/b/c",
                           "org/name:", "org/n:../x", "org/n:a/b", ".a/b", "a b/c", "a/b:c:d"})
    CHECK_MESSAGE(parsed(text) == "none", text);
  CHECK(parsed("org/" + std::string(129, 'a')) == "none");
}

TEST_CASE("the variant of a GGUF file is what its name says of its weights") {
  for (const auto& [file, variant] :
       {std::pair("Llama-3.2-1B-Instruct-Q4_K_M.gguf", "Q4_K_M"),
        std::pair("a/model.q8_0-00001-of-00002.gguf", "Q8_0"), std::pair("m_iq4_xs.gguf", "IQ4_XS"),
        std::pair("gpt-oss-20b-mxfp4.gguf", "MXFP4"), std::pair("m-f16.gguf", "F16"),
        std::pair("qwen2-chat.gguf", "qwen2-chat"), std::pair("m-UD-Q4_K_XL.gguf", "Q4_K_XL")})
    CHECK(gguf_variant(gguf_stem(file)) == variant);
}

TEST_CASE("one of several variants is named in any case, or the usual one is meant") {
  const std::vector<std::string> files{"m-Q4_K_M", "m-UD-Q4_K_M", "m-Q8_0", "m-bf16"};
  const auto chosen = [&](const std::string& wanted) {
    const auto index = choose_variant("org/m", files, wanted);
    return index ? files[*index] : index.error().text();
  };
  CHECK(chosen("q8_0") == "m-Q8_0");
  CHECK(chosen("BF16") == "m-bf16");
  CHECK(chosen("ud-q4_k_m") == "m-UD-Q4_K_M");
  CHECK(chosen("m-Q4_K_M") == "m-Q4_K_M");
  for (const char* unclear : {"Q4_K_M", ""})
    CHECK(chosen(unclear) == "org/m has several models: BF16, Q8_0, m-Q4_K_M, m-UD-Q4_K_M: name "
                             "one, such as org/m:BF16");
  CHECK(chosen("Q5_0").starts_with("org/m has no Q5_0: it has BF16, "));
  CHECK(choose_variant("org/m", {"m-Q8_0", "m-Q4_K_M"}, "") == 1u);
  CHECK(choose_variant("org/m", {"m-Q8_0"}, "") == 0u);
}

TEST_CASE("what was pulled is found by its name, once it is whole") {
  const Home home;
  home.pulled("org/name", "config.json");
  home.pulled("org/small:Q4_K_M", "small-Q4_K_M.gguf");
  home.pulled("org/.other:Q8_0.part", "other-Q8_0.gguf");
  home.write(".local/share/paceline/models/org/half/config.json", "{}");
  const std::string own = home.path(".local/share/paceline/models/org/");
  CHECK(place("org/name") == own + "name");
  CHECK(place("hf:org/name") == own + "name");
  for (const char* name : {"org/small", "org/small:q4_k_m", "org/small:small-Q4_K_M.gguf"})
    CHECK(place(name) == own + "small:Q4_K_M/small-Q4_K_M.gguf");
  for (const char* name : {"org/half", "org/other", "org/other:Q8_0", "org/small:Q8_0"})
    CHECK(place(name).ends_with(std::string("fetch it: paceline pull ") + name));
  CHECK(names() == std::vector<std::string>{"Paceline org/name", "Paceline org/small:Q4_K_M"});
  const Environment named("PACELINE_MODELS", home.path("elsewhere"));
  CHECK(place("org/name").find("paceline pull org/name") != std::string::npos);
}

TEST_CASE("the folder of pulled models is the one that is named, or among the user's data") {
  const Home home;
  CHECK(own_models() == home.path(".local/share/paceline/models"));
  const Environment relative("XDG_DATA_HOME", "data");
  CHECK(own_models() == home.path(".local/share/paceline/models"));
  const Environment data("XDG_DATA_HOME", "/data");
  CHECK(own_models() == "/data/paceline/models");
  const Environment named("PACELINE_MODELS", "/models");
  CHECK(own_models() == "/models");
}

TEST_CASE("models of the hub's cache are found: folders, and GGUF files by their variant") {
  const Home home;
  home.cached("config.json");
  const std::string first = home.cached("m-Q8_0-00001-of-00002.gguf");
  home.cached("m-Q8_0-00002-of-00002.gguf");
  home.cached("mmproj-m-f16.gguf");
  CHECK(place("org/cached") ==
        home.path(".cache/huggingface/hub/models--org--cached/snapshots/abc"));
  CHECK(place("org/cached:q8_0") == first);
  CHECK(place("org/cached:F16").find("paceline pull") != std::string::npos);
  CHECK(names() ==
        std::vector<std::string>{"Hugging Face org/cached", "Hugging Face org/cached:Q8_0"});
}

TEST_CASE("models of LM Studio and Ollama are found by the names that they have there") {
  const Home home;
  const std::string small = home.write(".lmstudio/models/org/name-GGUF/name-Q4_K_M.gguf");
  home.write(".lmstudio/models/org/name-GGUF/name-Q8_0.gguf");
  const std::string tagged = home.blob("registry.ollama.ai/library/llama3.2/1b", 'a');
  home.blob("registry.ollama.ai/library/llama3.2/3b", 'b');
  const std::string latest = home.blob("registry.ollama.ai/library/tiny/latest", 'c');
  const std::string own = home.blob("registry.ollama.ai/me/mine/latest", 'd');
  const std::string hub = home.blob("hf.co/org/other-GGUF/Q4_K_M", 'e');
  CHECK(place("org/name-GGUF") == small); // Q4_K_M is the usual one.
  CHECK(place("org/name-GGUF:Q4_K_M") == small);
  CHECK(place("llama3.2:1b") == tagged);
  CHECK(place("llama3.2").find("name one, such as llama3.2:1b") != std::string::npos);
  CHECK(place("tiny") == latest);
  CHECK(place("me/mine") == own);
  CHECK(place("org/other-GGUF:q4_k_m") == hub);
  CHECK(place("huge:latest").find("paceline list") != std::string::npos);
  CHECK(names().size() == 7);
  const Environment moved("OLLAMA_MODELS", home.path("moved"));
  CHECK(names().size() == 2);
}

TEST_CASE("manifests that name no file of Ollama's are passed over") {
  const Home home;
  const std::string at = ".ollama/models/manifests/registry.ollama.ai/library/";
  const std::string model = R"("mediaType": "application/vnd.ollama.image.model", "digest": )";
  home.write(at + "a/latest", "no JSON");
  home.write(at + "b/latest", R"({"layers": [{)" + model + R"("sha256:../../../etc/passwd"}]})");
  home.write(at + "c/latest",
             R"({"layers": [{)" + model + "\"sha256:" + std::string(64, '1') + "\"}]}");
  home.write(at + "d/latest", R"({"layers": [{)" + model + "7}, 3, {}]}");
  home.write(at + "e/latest", R"({"layers": {}})");
  CHECK(names().empty());
}

TEST_CASE("a path that is there wins over any name, and Paceline's own over other programs'") {
  const Home home;
  home.cached("config.json");
  home.pulled("org/cached", "config.json");
  CHECK(place("org/cached") == home.path(".local/share/paceline/models/org/cached"));
  const auto before = std::filesystem::current_path();
  home.write("here/org/cached/config.json", "{}");
  std::filesystem::current_path(home.path("here"));
  CHECK(place("org/cached") == "org/cached");
  std::filesystem::current_path(before);
}
