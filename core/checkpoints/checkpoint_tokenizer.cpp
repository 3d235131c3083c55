#include "core/checkpoints/checkpoint_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/files/folder_walk.h"
#include "core/files/input_file.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_escape.h"
#include "core/files/unreadable.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kLargestTokenizerConfig = std::uint64_t{64} << 20;  // it may list all added tokens

Json read_object(const fs::path& folder, const char* name) {
  const fs::path path = folder / name;
  std::error_code error;
  if (!fs::exists(path, error)) return Json::object();
  require_inside(folder, path);
  Json json = parse_json(read_file(path.string(), kLargestTokenizerConfig, "tokenizer_config.json"), path.string());
  if (!json.is_object()) refuse(path.string(), "is no JSON object");
  return json;
}

// Returns the text of a special token, which is a string or an object; nullopt if there is none.
std::optional<std::string> token_text(const Json& config, const std::string& key) {
  const auto found = config.find(key);
  if (found == config.end()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_object()) return std::nullopt;
  const auto content = found->find("content");
  return content != found->end() && content->is_string() ? std::optional(content->get<std::string>()) : std::nullopt;
}

// Compares tokenizer_config.json with the special tokens of tokenizer.json.
class SpecialTokenRules {
 public:
  SpecialTokenRules(const std::string& folder, CheckpointTokenizer& to)
      : path_((fs::path(folder) / "tokenizer_config.json").string()),
        config_(read_object(folder, "tokenizer_config.json")),
        map_(read_object(folder, "special_tokens_map.json")),
        to_(to) {}

  void apply() {
    SpecialTokens tokens = to_.tokenizer.special_tokens();
    decide("add_bos_token", "bos_token", "before", tokens.before, true);
    decide("add_eos_token", "eos_token", "after", tokens.after, false);
    to_.tokenizer.set_special_tokens(std::move(tokens));
  }

 private:
  // These classes of transformers do not have the keys.
  bool class_obeys() const {
    const auto name = config_.find("tokenizer_class");
    return name != config_.end() && name->is_string() && *name != "PreTrainedTokenizerFast" &&
           *name != "TokenizersBackend";
  }

  void note(const std::string& flag, bool stated_value, const std::string& what) {
    to_.notes.push_back(path_ + ": '" + flag + "' is " + (stated_value ? "true" : "false") + ", but " + what);
  }

  void decide(const std::string& flag, const std::string& key, const std::string& token_place,
              std::vector<std::int32_t>& ids, bool at_front) {
    const auto stated = config_.find(flag);
    if (stated == config_.end() || !stated->is_boolean()) return;
    const bool stated_value = stated->get<bool>();
    std::optional<std::string> token = token_text(config_, key);
    if (!token) token = token_text(map_, key);
    if (!token && stated_value) return note(flag, stated_value, "there is no '" + key + "'; none is added");
    if (!token) return;
    const std::optional<std::int32_t> id = to_.tokenizer.id_of(*token);
    if (!id && stated_value) refuse(path_, "'" + key + "' " + in_marks(*token) + " is no token of tokenizer.json");
    if (!id) return;
    const bool present = std::ranges::find(ids, *id) != ids.end();
    if (present == stated_value) return;
    const std::string contradiction = "tokenizer.json " + std::string(stated_value ? "adds no " : "adds ") +
                                      in_marks(*token) + ' ' + token_place + " a text; ";
    if (!class_obeys())
      return note(flag, stated_value, contradiction + "tokenizer.json is followed, as in transformers");
    note(flag, stated_value,
         contradiction + (stated_value ? "it is added" : "it is not added") +
             ", as in transformers 4 (transformers 5 " + (stated_value ? "adds none)" : "adds it)"));
    if (stated_value)
      ids.insert(at_front ? ids.begin() : ids.end(), *id);
    else
      std::erase(ids, *id);
  }

  static std::string in_marks(const std::string& text) { return "'" + printable(text) + "'"; }

  std::string path_;
  Json config_, map_;
  CheckpointTokenizer& to_;
};

}  // namespace

CheckpointTokenizer open_checkpoint_tokenizer(const std::string& folder) {
  const fs::path tokenizer = fs::path(folder) / "tokenizer.json";
  require_inside(folder, tokenizer);
  CheckpointTokenizer opened{Tokenizer(tokenizer.string())};
  SpecialTokenRules(folder, opened).apply();
  return opened;
}

}  // namespace moescope
