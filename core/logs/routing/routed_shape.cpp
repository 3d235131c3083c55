#include "core/logs/routing/routed_shape.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace moescope {

namespace {

constexpr std::size_t kMaxChosenExperts = 1024;
// K is certain if each smaller divisor of it, as K, would be expected to give at least this many repeated experts.
constexpr double kEnoughRepeats = 20;
constexpr int kFillings[] = {255, 65535, std::numeric_limits<int>::max()};

template <typename Take>
void visit_rows(std::span<const RoutedSequence> sequences, std::size_t top_k, Take take) {
  for (const RoutedSequence& sequence : sequences)
    for (std::size_t first = 0; first + top_k <= sequence.ids.size(); first += top_k)
      take(std::span(sequence.ids).subspan(first, top_k));
}

bool all_equal(std::span<const int> row) {
  return std::ranges::all_of(row, [&](int id) { return id == row.front(); });
}

// Returns false if a row has an expert twice. Rows of equal numbers, which are dense layers or padding, are left out.
bool fits_top_k(std::span<const RoutedSequence> sequences, std::size_t top_k) {
  bool fits = true;
  std::vector<int> sorted;
  visit_rows(sequences, top_k, [&](std::span<const int> row) {
    if (!fits || all_equal(row)) return;
    sorted.assign(row.begin(), row.end());
    std::ranges::sort(sorted);
    fits = std::ranges::adjacent_find(sorted, [](int a, int b) { return a == b && a >= 0; }) == sorted.end();
  });
  return fits;
}

// Returns the expected number of repeated experts in rows of `top_k` numbers if each of them had the experts of several
// layers, with `smaller` experts each. Assumes an even load, which gives too small a number.
double expected_repeats(std::span<const RoutedSequence> sequences, std::size_t top_k, std::size_t smaller) {
  int highest = 0;
  double rows = 0;
  visit_rows(sequences, top_k, [&](std::span<const int> row) {
    if (all_equal(row)) return;
    ++rows;
    highest = std::max(highest, *std::ranges::max_element(row));
  });
  const auto whole_layers = top_k / smaller;
  const double layers = whole_layers, k = smaller;
  return rows * layers * (layers - 1) / 2 * k * k / (highest + 1);
}

// Returns the largest K that divides the number of a token's ids and for which no row has an expert twice; nullopt if
// there are too few rows to decide.
std::optional<std::size_t> shown_top_k(std::span<const RoutedSequence> sequences, std::size_t ids_of_token) {
  std::size_t found = 1;
  for (std::size_t top_k = std::min(ids_of_token, kMaxChosenExperts); top_k > 1 && found == 1; --top_k)
    if (ids_of_token % top_k == 0 && fits_top_k(sequences, top_k)) found = top_k;
  for (std::size_t smaller = 1; smaller < found; ++smaller)
    if (found % smaller == 0 && expected_repeats(sequences, found, smaller) < kEnoughRepeats) return std::nullopt;
  return found;
}

// Returns the number of ids of a token: that of the file, or else the number on which responses of different lengths
// agree; nullopt if sequences do not agree or all have one length.
std::optional<std::size_t> agreed_ids_of_token(std::span<const RoutedSequence> sequences) {
  const RoutedSequence& one = sequences.front();
  if (one.ids_of_token > 0)
    return std::ranges::all_of(sequences,
                               [&](const auto& candidate) { return candidate.ids_of_token == one.ids_of_token; })
               ? std::optional(one.ids_of_token)
               : std::nullopt;
  if (one.most_tokens == 0 || one.ids.size() % one.most_tokens != 0) return std::nullopt;
  const std::size_t ids = one.ids.size() / one.most_tokens;
  bool several_lengths = false;
  for (const RoutedSequence& sequence : sequences) {
    if (sequence.ids.size() != ids * sequence.most_tokens) return std::nullopt;
    several_lengths |= sequence.most_tokens != one.most_tokens;
  }
  return several_lengths ? std::optional(ids) : std::nullopt;
}

RowShape stated_flat_shape(std::span<const RoutedSequence> sequences, RowShape shape, const std::string& source) {
  for (const RoutedSequence& sequence : sequences) {
    if (sequence.ids_of_token > 0 && sequence.ids_of_token != shape.ids())
      refuse(source, fmt::format("has {} numbers a token, which do not fit {} layers of {} experts (--layers, --top-k)",
                                 sequence.ids_of_token, shape.layers, shape.top_k));
    const std::string what = fmt::format("{}: {} numbers of a response", source, sequence.ids.size());
    if (sequence.ids.size() % shape.ids() != 0)
      throw std::runtime_error(fmt::format("{} are not rows of {} layers of {} experts (--layers, --top-k)", what,
                                           shape.layers, shape.top_k));
    if (sequence.most_tokens > 0 && sequence.ids.size() / shape.ids() > sequence.most_tokens)
      throw std::runtime_error(
          fmt::format("{} are more rows than its {} tokens (--layers, --top-k)", what, sequence.most_tokens));
  }
  return shape;
}

RowShape shape_of_flat_rows(std::span<const RoutedSequence> sequences, const RoutedShape& stated,
                            const std::string& source) {
  const std::size_t layers = stated.layers, top_k = stated.top_k;
  if (layers > 0 && top_k > 0) return stated_flat_shape(sequences, {layers, top_k}, source);
  const std::optional<std::size_t> ids = agreed_ids_of_token(sequences);
  if (!ids)
    throw AmbiguousRouting(source +
                           ": routed_experts is a flat array, and its rows may begin after the first token "
                           "(routed_experts_start_len): state the number of layers (--layers) and of experts "
                           "a token (--top-k) when it is imported");
  const std::size_t known = std::max(layers, top_k);
  if (known > 0 && *ids % known != 0)
    refuse(source, fmt::format("{} numbers a token are not a multiple of {}{}", *ids, known,
                               layers > 0 ? " layers (--layers)" : " experts (--top-k)"));
  if (layers > 0) return {layers, *ids / layers};
  if (top_k > 0) return {*ids / top_k, top_k};
  const std::optional<std::size_t> shown = shown_top_k(sequences, *ids);
  if (!shown)
    throw AmbiguousRouting(
        fmt::format("{}: too few tokens show how many of a token's {} experts belong to a layer: state that number "
                    "(--top-k) when it is imported",
                    source, *ids));
  return {*ids / *shown, *shown};
}

}  // namespace

RowShape shape_of_rows(std::span<const RoutedSequence> sequences, const RoutedShape& stated,
                       const std::string& source) {
  const RoutedSequence& first = sequences.front();
  for (const RoutedSequence& sequence : sequences)
    if (sequence.layers != first.layers || sequence.top_k != first.top_k)
      refuse(source, fmt::format("sequence {} has another number of layers or experts a token than those before it",
                                 &sequence - &first));
  if (first.layers == 0) return shape_of_flat_rows(sequences, stated, source);
  const auto contradicts = [&](int number, std::size_t in_file, const char* what, const char* option) {
    if (number > 0 && static_cast<std::size_t>(number) != in_file)
      refuse(source, fmt::format("has {}{}, but {} is {}", in_file, what, option, number));
  };
  contradicts(stated.layers, first.layers, " layers", "--layers");
  contradicts(stated.top_k, first.top_k, " experts a token", "--top-k");
  return {first.layers, first.top_k};
}

EmptySlots::EmptySlots(std::span<const RoutedSequence> sequences, const RowShape& shape, int experts,
                       const std::string& source)
    : limit_(experts) {
  int highest = 0;  // highest id that is not a filling
  for (const RoutedSequence& sequence : sequences)
    for (const int id : sequence.ids)
      if (std::ranges::find(kFillings, id) == std::end(kFillings)) highest = std::max(highest, id);
  for (const int filling : kFillings) {
    std::size_t with = 0, rows = 0;
    bool twice = false;
    visit_rows(sequences, shape.top_k, [&](std::span<const int> row) {
      if (all_equal(row) && shape.top_k > 1) return;
      ++rows;
      const auto times = std::ranges::count(row, filling);
      with += times > 0;
      twice |= times > 1;
    });
    if (twice) filling_ = filling;
    const bool always = with == rows && rows > 0 && shape.top_k > 1;
    const bool far_above = with > 0 && highest < filling / 2;  // an expert of this number would have others near it
    if (!twice && (always || far_above) && experts == 0)
      throw AmbiguousRouting(
          fmt::format("{}: {}{}{}, which may be an expert or an empty slot: state the number of experts (--experts) "
                      "when it is imported",
                      source, always ? "every token has " : "some tokens have ", filling,
                      always ? " in every layer" : ", and no other number is near"));
  }
  if (limit_ == 0) return;
  visit_rows(sequences, shape.top_k, [&](std::span<const int> row) {
    for (const int id : row)
      if (id >= limit_ && std::ranges::find(kFillings, id) == std::end(kFillings))
        refuse(source, fmt::format("has expert {}, but --experts is {}", id, limit_));
  });
}

}  // namespace moescope
