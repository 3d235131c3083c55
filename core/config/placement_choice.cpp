#include "core/config/placement_choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "core/numerics/index.h"

namespace moescope {
namespace {

using Kind = PlacementChoice::Kind;
constexpr std::string_view kNames[] = {"contiguous", "random", "balanced"};
constexpr std::string_view kReplanned = "balanced:", kPacked = "packed:";
constexpr int kMaxReplanSteps = 10000;

[[noreturn]] void refuse_choice(std::string_view text) {
  throw std::runtime_error(
      fmt::format("'{}' is not a placement; allowed: contiguous, random, balanced, balanced:STEPS with 1 to {} steps, "
                  "packed:STEPS, or by hand the rank of each expert of a layer, LAYER:RANK,RANK,...;LAYER:...",
                  std::string(text.substr(0, 80)), kMaxReplanSteps));
}

// Reads a number at the beginning of `unread` and removes it.
int take_number(std::string_view& unread, std::string_view whole) {
  int value = 0;
  const auto [stop, error] = std::from_chars(unread.data(), unread.data() + unread.size(), value);
  if (error != std::errc() || value < 0) refuse_choice(whole);
  unread.remove_prefix(stop - unread.data());
  return value;
}

char take_char(std::string_view& unread) {
  const char c = unread.front();
  unread.remove_prefix(1);
  return c;
}

PlacementChoice parse_replanned(std::string_view text) {
  const bool has_replicas = text.starts_with(kReplanned);
  std::string_view unread = text.substr((has_replicas ? kReplanned : kPacked).size());
  const int interval = take_number(unread, text);
  if (!unread.empty() || interval < 1 || interval > kMaxReplanSteps) refuse_choice(text);
  return {Kind::balanced, {}, interval, has_replicas};
}

PlacementChoice parse_by_hand(std::string_view text) {
  PlacementChoice choice{Kind::by_hand, {}};
  std::string_view unread = text;
  while (!unread.empty()) {
    const int layer = take_number(unread, text);
    if (unread.empty() || take_char(unread) != ':' || choice.by_hand.contains(layer)) refuse_choice(text);
    std::vector<std::int32_t>& ranks = choice.by_hand[layer];
    for (char next = ','; next == ',';) {
      ranks.push_back(take_number(unread, text));
      next = unread.empty() ? ';' : take_char(unread);
      if (next != ',' && next != ';') refuse_choice(text);
    }
  }
  return choice;
}

}  // namespace

PlacementChoice parse_placement_choice(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (text == kNames[i]) return {static_cast<Kind>(i), {}};
  if (text.empty()) refuse_choice(text);
  if (text.starts_with(kReplanned) || text.starts_with(kPacked)) return parse_replanned(text);
  return parse_by_hand(text);
}

std::string placement_choice_text(const PlacementChoice& choice) {
  if (choice.replan_every > 0)
    return fmt::format("{}{}", choice.has_replicas ? kReplanned : kPacked, choice.replan_every);
  if (choice.kind != Kind::by_hand) return std::string(kNames[static_cast<std::size_t>(choice.kind)]);
  std::string text;
  for (const auto& [layer, ranks] : choice.by_hand) {
    text += fmt::format("{}{}:", text.empty() ? "" : ";", layer);
    for (std::size_t e = 0; e < ranks.size(); ++e) text += fmt::format("{}{}", e > 0 ? "," : "", ranks[e]);
  }
  return text;
}

std::string placement_problem(const PlacementChoice& choice, int n_experts, int ranks) {
  for (const auto& [layer, rank_of] : choice.by_hand) {
    const std::string layer_name = fmt::format("placement of layer {}", layer);
    if (to_int(rank_of.size()) != n_experts)
      return fmt::format("{} names {} ranks, expected one for each of the {} experts", layer_name, rank_of.size(),
                         n_experts);
    const std::int32_t highest_rank = *std::ranges::max_element(rank_of);
    if (highest_rank >= ranks)
      return fmt::format("{} names rank {}; allowed: 0 to {}", layer_name, highest_rank, ranks - 1);
  }
  return {};
}

}  // namespace moescope
