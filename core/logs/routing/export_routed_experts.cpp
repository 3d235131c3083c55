#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "core/logs/log_exports.h"

namespace moescope {
namespace {

constexpr std::size_t kNpyAlignment = 64;

// A file of version 1.0: magic, version, length of the header in two bytes, header, values.
std::string npy_of(const std::vector<std::int32_t>& values, const RoutedText& routed) {
  std::string header = fmt::format("{{'descr': '<i4', 'fortran_order': False, 'shape': ({}, {}, {}), }}", routed.tokens,
                                   routed.layers, routed.top_k);
  constexpr std::size_t kBeforeHeader = 10;
  header.append(kNpyAlignment - 1 - (header.size() + kBeforeHeader) % kNpyAlignment, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  for (const std::int32_t value : values)
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>((value >> shift) & 0xff);
  return bytes;
}

}  // namespace

RoutedText routed_text(const History& run, std::int64_t step) {
  RoutedText routed;
  std::shared_ptr<const TokenFrame> text;
  for (const TextKind kind : {TextKind::probe, TextKind::sample, TextKind::batch}) {
    if (text && !text->layers.empty()) break;
    routed.step = step;
    routed.kind = kind;
    text = run.text_at(kind, routed.step);
  }
  if (!text || text->layers.empty())
    throw std::runtime_error(
        fmt::format("has no routed text at or before step {}; telemetry.texts_every records one", step));
  const std::vector<TokenSpan> spans = token_spans(*text);
  routed.tokens = spans.size();
  routed.top_k = text->layers.front().top_k;
  routed.layers = run.info().n_layers;
  for (const TokenLayer& layer : text->layers) {
    if (static_cast<std::size_t>(layer.top_k) != routed.top_k)
      throw std::runtime_error(fmt::format(
          "has layers with {} and with {} experts per token, which one array cannot hold", routed.top_k, layer.top_k));
    routed.layers = std::max(routed.layers, static_cast<std::size_t>(layer.layer) + 1);
  }
  std::vector<std::int32_t> experts(routed.tokens * routed.layers * routed.top_k);
  for (const TokenLayer& layer : text->layers)
    for (std::size_t token = 0; token < routed.tokens; ++token)
      std::ranges::copy_n(layer.experts_TK.begin() + spans[token].begin * routed.top_k, routed.top_k,
                          experts.begin() + (token * routed.layers + layer.layer) * routed.top_k);
  routed.npy = npy_of(experts, routed);
  return routed;
}

}  // namespace moescope
