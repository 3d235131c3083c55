#include "core/checkpoints/text_sources.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "core/io/json_text.h"

namespace moescope {
namespace {

constexpr const char *kTexts = "texts", *kTokenIds = "token_ids", *kPrompt = "prompt", *kLength = "piece_tokens";

std::vector<std::string> paths_in(const LogSettings& settings, const char* key) {
  const auto found = settings.find(key);
  if (found == settings.end()) return {};
  const nlohmann::json json = parse_json(found->second);
  if (!json.is_array()) return {};
  std::vector<std::string> paths;
  for (const nlohmann::json& path : json)
    if (path.is_string()) paths.push_back(path.get<std::string>());
  return paths;
}

}  // namespace

std::vector<LabelledText> read_all(const TextSources& sources, const Tokenizer* tokenizer) {
  std::vector<LabelledText> texts;
  if (!tokenizer && !(sources.texts.empty() && sources.prompt.empty()))
    throw std::runtime_error("texts need a tokenizer");
  for (const std::string& path : sources.texts)
    for (LabelledText& text : read_texts(path, *tokenizer)) texts.push_back(std::move(text));
  for (const std::string& path : sources.token_ids) texts.push_back(read_token_ids(path));
  if (!sources.prompt.empty()) texts.push_back({"prompt", tokenizer->encode(sources.prompt)});
  return texts;
}

std::string absolute_path(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
}

std::string settings_json(const TextSources& sources, const char* score_func) {
  nlohmann::json settings{{"score_func", score_func}, {kLength, sources.length}};
  for (const std::string& path : sources.texts) settings[kTexts].push_back(absolute_path(path));
  for (const std::string& path : sources.token_ids) settings[kTokenIds].push_back(absolute_path(path));
  if (!sources.prompt.empty()) settings[kPrompt] = sources.prompt;
  return settings.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<TextSources> text_sources_in(const LogSettings& settings) {
  TextSources sources;
  try {
    sources.texts = paths_in(settings, kTexts);
    sources.token_ids = paths_in(settings, kTokenIds);
    if (const auto found = settings.find(kLength); found != settings.end()) sources.length = std::stoi(found->second);
  } catch (const std::exception&) {  // no JSON, no number
    return std::nullopt;
  }
  if (const auto found = settings.find(kPrompt); found != settings.end()) sources.prompt = found->second;
  const bool some = !sources.texts.empty() || !sources.token_ids.empty() || !sources.prompt.empty();
  return some && sources.length >= 2 ? std::optional(sources) : std::nullopt;
}

}  // namespace moescope
