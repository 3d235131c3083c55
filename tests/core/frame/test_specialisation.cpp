#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/frame/frame.h"
#include "core/frame/specialisation.h"

namespace moescope {
namespace {

// 2 domains, 3 experts: expert 0 takes the first domain, expert 2 the second, expert 1 both.
SpecialisationFrame two_domains() {
  SpecialisationFrame frame;
  frame.layer = 4;
  frame.domain_DE = {30, 10, 0, 0, 20, 40};
  frame.together_EE = {30, 10, 0, 10, 30, 20, 0, 20, 40};
  frame.byte_256E.resize(256 * 3);
  const auto put = [&](char byte, std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    const auto row = static_cast<std::size_t>(byte) * 3;
    frame.byte_256E[row] = a;
    frame.byte_256E[row + 1] = b;
    frame.byte_256E[row + 2] = c;
  };
  put('x', 20, 10, 0);
  put('(', 10, 5, 15);
  put('7', 0, 15, 25);
  return frame;
}

TEST(Specialisation, DomainShareAndLiftOfAHandMadeTable) {
  const SpecialisationFrame frame = two_domains();
  ASSERT_EQ(frame.n_experts(), 3u);
  EXPECT_EQ(expert_share(frame), (std::vector<float>{0.3f, 0.3f, 0.4f}));
  EXPECT_EQ(domain_share(frame), (std::vector<float>{0.75f, 0.25f, 0, 0, 1 / 3.0f, 2 / 3.0f}));
  const std::vector<float> lift = domain_lift(frame);
  const float expected[] = {2.5f, 0.25f / 0.3f, 0, 0, (1 / 3.0f) / 0.3f, (2 / 3.0f) / 0.4f};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(lift[i], expected[i]) << i;
}

TEST(Specialisation, UnseenTokensHaveNoValue) {
  SpecialisationFrame frame = two_domains();
  frame.domain_DE = {30, 10, 0, 0, 0, 0};
  EXPECT_TRUE(is_missing(domain_share(frame)[3]));
  EXPECT_TRUE(is_missing(domain_lift(frame)[3])) << "a domain without tokens";
  EXPECT_TRUE(is_missing(domain_lift(frame)[2])) << "an expert without tokens";
  EXPECT_TRUE(domains_of_expert(frame, 2).empty());
  EXPECT_TRUE(domain_share({}).empty());
  EXPECT_TRUE(coactivation_share({}).empty());
  EXPECT_TRUE(bytes_of_expert({}, 0).empty());
}

TEST(Specialisation, DomainsOfAnExpertComeByLift) {
  const auto domains = domains_of_expert(two_domains(), 1);
  ASSERT_EQ(domains.size(), 2u);
  EXPECT_EQ(domains[0].kind, 1u);
  EXPECT_EQ(domains[0].n_slots, 20u);
  EXPECT_FLOAT_EQ(domains[0].share, 2 / 3.0f);
  EXPECT_FLOAT_EQ(domains[0].lift, (1 / 3.0f) / 0.3f);
  EXPECT_FLOAT_EQ(domains[1].lift, 0.25f / 0.3f);
}

TEST(Specialisation, CoactivationIsDirected) {
  const std::vector<float> share = coactivation_share(two_domains());
  EXPECT_TRUE(is_missing(share[0]));
  EXPECT_FLOAT_EQ(share[1], 10 / 30.0f);
  EXPECT_FLOAT_EQ(share[5], 20 / 30.0f);
  EXPECT_FLOAT_EQ(share[7], 20 / 40.0f);
  EXPECT_FLOAT_EQ(coactivation_baseline(4, 32), 3 / 31.0f);
  EXPECT_TRUE(is_missing(coactivation_baseline(1, 1)));
}

TEST(Specialisation, BytesOfAnExpertComeByLift) {
  const auto bytes = bytes_of_expert(two_domains(), 1, 5);
  ASSERT_EQ(bytes.size(), 3u);
  EXPECT_EQ(bytes[0].kind, '7');  // 15 / 30 against 40 / 100
  EXPECT_FLOAT_EQ(bytes[0].share, 0.5f);
  EXPECT_FLOAT_EQ(bytes[0].lift, 0.5f / 0.4f);
  EXPECT_EQ(bytes[1].kind, 'x');
  EXPECT_EQ(bytes_of_expert(two_domains(), 1, 11).size(), 1u);
  const std::vector<float> classes = byte_class_lift(two_domains());
  const auto digit = static_cast<std::size_t>(ByteClass::digit) * 3;
  EXPECT_FLOAT_EQ(classes[digit], 0);
  EXPECT_FLOAT_EQ(classes[digit + 2], (25 / 40.0f) / 0.4f);
  EXPECT_TRUE(is_missing(classes[static_cast<std::size_t>(ByteClass::upper) * 3]));
  EXPECT_EQ(byte_class('('), ByteClass::bracket);
  EXPECT_EQ(byte_class('\n'), ByteClass::line_end);
  EXPECT_EQ(byte_class(0xc3), ByteClass::other);
}

TokenFrame routed(std::string text, std::vector<std::uint16_t> experts, std::vector<float> scores = {}) {
  TokenFrame frame;
  frame.text = std::move(text);
  TokenLayer& layer = frame.layers.emplace_back();
  layer.layer = 2;
  layer.top_k = static_cast<int>(experts.size() / frame.text.size());
  layer.scores_TK = scores.empty() ? std::vector<float>(experts.size(), 0.5f) : std::move(scores);
  layer.experts_TK = std::move(experts);
  layer.margin_T.assign(frame.text.size(), 0.1f);
  return frame;
}

TEST(Specialisation, StabilityIsTheMeanSharedPart) {
  const TokenFrame newer = routed("abc", {0, 1, 2, 3, 4, 5});
  EXPECT_FLOAT_EQ(routing_stability(newer, newer, 2), 1);
  EXPECT_FLOAT_EQ(routing_stability(newer, routed("abc", {1, 0, 3, 7, 6, 7}), 2), (1 + 0.5f + 0) / 3);
  EXPECT_TRUE(is_missing(routing_stability(newer, newer, 3))) << "no such layer";
  EXPECT_TRUE(is_missing(routing_stability(newer, routed("abd", {0, 1, 2, 3, 4, 5}), 2))) << "another text";
  EXPECT_TRUE(is_missing(routing_stability(newer, routed("abc", {0, 1, 2}), 2))) << "another top_k";
  EXPECT_FLOAT_EQ(stability_baseline(4, 32), 0.125f);
  EXPECT_FLOAT_EQ(unchanged_choices(newer, routed("abc", {1, 0, 3, 7, 6, 7}), 2), 1 / 3.0f)
      << "as sets, whatever order";
  EXPECT_TRUE(is_missing(unchanged_choices(newer, routed("abd", {0, 1, 2, 3, 4, 5}), 2)));
  EXPECT_FLOAT_EQ(unchanged_baseline(2, 8), 1 / 28.0f);
  EXPECT_FLOAT_EQ(unchanged_baseline(8, 8), 1);
}

TEST(Specialisation, FavouriteTokensHaveLargestShare) {
  const TokenFrame text = routed("ab aabb", {3, 1, 3, 1, 1, 2, 3, 2, 1, 2, 3, 1, 2, 1},
                                 {0.6f, 0.2f, 0.5f, 0.5f, 0.1f, 0.1f, 0.9f, 0.1f, 0.1f, 0.1f, 0.2f, 0.6f, 0.1f, 0.1f});
  EXPECT_FLOAT_EQ(mix_shares(text.layers[0], 0)[0], 0.75f);
  const TokenFrame* texts[] = {&text, nullptr};
  const auto best = favourite_tokens(texts, 2, 3, 3);
  ASSERT_EQ(best.size(), 3u);
  EXPECT_EQ(best[0].position, 3u);
  EXPECT_FLOAT_EQ(best[0].mix_share, 0.9f);
  EXPECT_EQ(best[1].position, 0u);
  EXPECT_EQ(best[2].position, 1u);
  EXPECT_TRUE(favourite_tokens(texts, 2, 7, 3).empty());
  const TokenFrame* twice[] = {&text, &text};
  EXPECT_EQ(favourite_tokens(twice, 2, 3, 9).size(), 4u) << "the same bytes in the same surroundings count once";
}

// " the" and "n" of a tokenizer, each with the loss at its first byte.
TokenFrame with_long_tokens() {
  TokenFrame text =
      routed("xxxxn", {0, 1, 0, 1, 0, 1, 0, 1, 1, 2}, {0.3f, 0.2f, 0.3f, 0.2f, 0.3f, 0.2f, 0.3f, 0.2f, 0.4f, 0.1f});
  text.loss_T = {kNoValue, kNoValue, kNoValue, kNoValue, 2};
  return text;
}

TEST(Specialisation, BytesOfOneTokenCountOnce) {
  const TokenFrame text = with_long_tokens();
  const auto spans = token_spans(text);
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].end, 4u);
  EXPECT_EQ(span_at(spans, 3).begin, 0u);
  EXPECT_EQ(span_at(spans, 4).begin, 4u);
  TokenFrame other = text;
  other.layers[0].experts_TK = {7, 8, 7, 8, 7, 8, 7, 8, 1, 2};
  EXPECT_FLOAT_EQ(unchanged_choices(text, other, 2), 0.5f) << "one of two tokens, not one of five bytes";
  const TokenFrame* texts[] = {&text};
  const auto best = favourite_tokens(texts, 2, 1, 9);
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0].position, 4u);
  EXPECT_EQ(best[1].end, 4u);
}

TEST(Specialisation, BytesAreTokensWhereThatIsAllThatIsKnown) {
  TokenFrame text = with_long_tokens();
  text.loss_T[4] = kNoValue;
  EXPECT_EQ(token_spans(text).size(), 5u) << "a text without any loss, of a log";
  text = with_long_tokens();
  text.loss_T[1] = 3;
  EXPECT_EQ(token_spans(text).size(), 3u);
  text = with_long_tokens();
  text.layers[0].scores_TK.assign(10, kNoValue);
  EXPECT_EQ(token_spans(text).size(), 5u) << "scores that are no numbers are not the same";
}

TEST(Specialisation, AccumulatedTablesAddUp) {
  SpecialisationFrame sum;
  accumulate(sum, two_domains());
  accumulate(sum, two_domains());
  EXPECT_EQ(sum.layer, 4);
  EXPECT_EQ(sum.domain_DE, (std::vector<std::uint32_t>{60, 20, 0, 0, 40, 80}));
  EXPECT_EQ(domain_lift(sum), domain_lift(two_domains()));
}

}  // namespace
}  // namespace moescope
