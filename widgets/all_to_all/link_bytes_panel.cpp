#include "widgets/all_to_all/link_bytes_panel.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/parallel/routing_patterns.h"
#include "widgets/panel/metric_text.h"

namespace moescope {
namespace {

using Fill = BandBars::Fill;
constexpr int kNetworkColor = 1, kNvlinkColor = 0;
constexpr std::int64_t kSweepTokens = 4096;
constexpr int kMostTopK = 16;

const VolumeFrame* volumeOf(const TelemetryFrame* frame, int layer) {
  if (!frame) return nullptr;
  const auto router = std::ranges::find(frame->routers, layer, &RouterFrame::layer);
  return router == frame->routers.end() || router->volume.distinct_RR.empty() ? nullptr : &router->volume;
}

QString wayName(AllToAll way) {
  return way == AllToAll::standard ? Panel::tr("standard") : Panel::tr("DeepEP");
}

QString payloadName(Payload payload) {
  return QString::fromUtf8(payload_name(payload)).toUpper();
}

std::vector<BandBars::LegendEntry> links() {
  return {{Panel::tr("network, between nodes"), kNetworkColor, Fill::solid, false},
          {Panel::tr("NVLink, inside a node"), kNvlinkColor, Fill::hatched, false}};
}

BandBars::Row rowOf(const QString& name, double network, double nvlink, const QString& figure) {
  return {name,         {{network, kNetworkColor, Fill::solid}, {nvlink, kNvlinkColor, Fill::hatched}},
          std::nan(""), std::nan(""),
          figure,       false};
}

}  // namespace

LinkBytesPanel::LinkBytesPanel(Selection* selection, QWidget* parent)
    : Panel(selection, tr("Bytes by link, and what is saved"), Provenance::counted, parent) {
  plot_ = new BandBars(this);
  plot_->setFormatter([](double bytes) { return formatBytes(bytes); });
  plot_->setLegend(links());
  plot_->refill = [this] { refill(); };
  plot_->describe = [this](int row) { return describe(row); };
  for (auto signal : {&Selection::dataChanged, &Selection::timeChanged, &Selection::focusChanged})
    connect(selection_, signal, plot_, &PlotFrame::markDirty);
  addControl(new LayerCombo(selection, this));
  addBody(plot_);
}

void LinkBytesPanel::refill() {
  lines_.clear();
  const History* history = selection_->history();
  if (!history) return plot_->setNotice(noRunNotice());
  if (history->steps().empty()) return plot_->setNotice(noDataYetNotice());
  const auto frame = selection_->frame();
  const VolumeFrame* volume = volumeOf(frame.get(), selection_->layer());
  if (!volume) return plot_->setNotice(notInLogNotice(history->info(), tr("copies between ranks")));
  plot_->setNotice({});
  plot_->setCaption(tr("bytes of one dispatch, all ranks; D = %1").arg(history->info().dim));
  std::vector<BandBars::Row> rows;
  double standard = 0;
  for (const AllToAll way : {AllToAll::standard, AllToAll::deep_ep}) {
    const LinkCopies copies = total(copies_by_link(*volume, way));
    for (const Payload payload : {Payload::bf16, Payload::fp8, Payload::mxfp8}) {
      const auto each = static_cast<double>(bytes_per_token(payload, history->info().dim));
      const Line line{way, payload, each * static_cast<double>(copies.network_out),
                      each * static_cast<double>(copies.nvlink_out)};
      const double sum = line.network + line.nvlink;
      if (lines_.empty()) standard = sum;
      const QString saved = standard > 0 && !lines_.empty()
                                ? tr(sum > standard ? "%1, costs %2 more" : "%1, saves %2")
                                      .arg(formatBytes(sum), formatPercent(std::abs(1 - sum / standard)))
                                : formatBytes(sum);
      rows.push_back(rowOf(wayName(way) + QLatin1Char(' ') + payloadName(payload), line.network, line.nvlink, saved));
      lines_.push_back(line);
    }
  }
  plot_->setRows(std::move(rows));
}

QStringList LinkBytesPanel::describe(int row) const {
  if (row < 0 || row >= static_cast<int>(lines_.size())) return {};
  const Line& line = lines_[static_cast<std::size_t>(row)];
  return {wayName(line.way) + QLatin1Char(' ') + payloadName(line.payload),
          tr("between nodes: %1").arg(formatBytes(line.network)), tr("inside nodes: %1").arg(formatBytes(line.nvlink))};
}

QString LinkBytesPanel::status() const {
  const auto frame = selection_->frame();
  return frame ? timeStatus(frame->step, true) : QString();
}

QString LinkBytesPanel::csv() const {
  QString text = QStringLiteral("layer,all-to-all,payload,network [bytes],NVLink [bytes]\n");
  for (const Line& line : lines_)
    text += QStringLiteral("%1,%2,%3,%4,%5\n")
                .arg(selection_->layer())
                .arg(wayName(line.way), payloadName(line.payload))
                .arg(line.network, 0, 'f', 0)
                .arg(line.nvlink, 0, 'f', 0);
  return text;
}

QString LinkBytesPanel::explain() const {
  return tr("<p><b>Bytes that one layer's dispatch moves</b>, by link, over all ranks: token copies counted from this "
            "step's real routing times the bytes of a token's row. Ranks are virtual.</p><p><i>standard</i> sends a "
            "copy per chosen expert. <i>DeepEP</i> sends one per destination node over the network, to the rank with "
            "the same local index there, which forwards it over NVLink. <i>saves</i> is relative to standard in "
            "BF16.</p><p>A row of D values: BF16 2 D; FP8 (DeepEP's dispatch) D + 4 D / 128; MXFP8 D + D / 32. Combine "
            "is the reverse, and stays BF16 in the forward pass.</p>") +
         metricCards({"copies", "distinct", "nodes"});
}

BytesAgainstKPanel::BytesAgainstKPanel(Selection* selection, QWidget* parent)
    : Panel(selection, tr("Bytes per token against K"), Provenance::counted, parent) {
  payload_ = new QComboBox(this);
  payload_->addItems({tr("BF16"), tr("FP8"), tr("MXFP8")});
  payload_->setAccessibleName(tr("Payload"));
  addControl(payload_);
  plot_ = new BandBars(this);
  plot_->setFormatter([](double bytes) { return formatBytes(bytes); });
  plot_->setLegend(links());
  plot_->refill = [this] { refill(); };
  plot_->describe = [this](int row) { return describe(row); };
  for (auto signal : {&Selection::dataChanged, &Selection::focusChanged})
    connect(selection_, signal, plot_, &PlotFrame::markDirty);
  connect(payload_, &QComboBox::currentIndexChanged, plot_, &PlotFrame::markDirty);
  addBody(plot_);
}

void BytesAgainstKPanel::refill() {
  const History* history = selection_->history();
  if (!history) return plot_->setNotice(noRunNotice());
  const auto frame = selection_->frame();
  const VolumeFrame* volume = volumeOf(frame.get(), selection_->layer());
  if (!volume)
    return plot_->setNotice(history->steps().empty() ? noDataYetNotice()
                                                     : notInLogNotice(history->info(), tr("copies between ranks")));
  const RunInfo& info = history->info();
  const int experts = info.n_experts, ranks = volume->ranks, per_node = volume->ranks_per_node;
  if (experts <= 0 || ranks <= 0 || experts % ranks)
    return plot_->setNotice(tr("%1 ranks do not divide %2 experts").arg(ranks).arg(experts));
  plot_->setNotice({});
  const std::vector<std::int64_t> of{experts, ranks, per_node, info.dim, payload_->currentIndex()};
  if (of == of_) return;
  of_ = of;
  lines_.clear();
  std::vector<BandBars::Row> rows;
  const auto each = static_cast<double>(bytes_per_token(static_cast<Payload>(payload_->currentIndex()), info.dim));
  for (int k = 1; k <= std::min(kMostTopK, experts); k *= 2) {
    const auto topk = route_by_pattern({RoutingRule::uniform}, kSweepTokens, k, experts);
    const VolumeFrame swept = count_volumes(topk, k, experts, ranks, per_node);
    for (const AllToAll way : {AllToAll::standard, AllToAll::deep_ep}) {
      const LinkCopies copies = total(copies_by_link(swept, way));
      const double per_copy = each / kSweepTokens;
      const Line line{k, way, per_copy * static_cast<double>(copies.network_out),
                      per_copy * static_cast<double>(copies.nvlink_out)};
      const QString name = tr("K = %1 %2").arg(k).arg(wayName(way)) +
                           (k == info.top_k && way == AllToAll::standard ? tr(" (this run's K)") : QString());
      rows.push_back(rowOf(name, line.network, line.nvlink, formatBytes(line.network + line.nvlink)));
      lines_.push_back(line);
    }
  }
  plot_->setCaption(tr("bytes a token and dispatch; uniform routing of %1 experts over %2 ranks, nodes of %3")
                        .arg(experts)
                        .arg(ranks)
                        .arg(per_node));
  plot_->setRows(std::move(rows));
}

QStringList BytesAgainstKPanel::describe(int row) const {
  if (row < 0 || row >= static_cast<int>(lines_.size())) return {};
  const Line& line = lines_[static_cast<std::size_t>(row)];
  return {tr("K = %1, %2").arg(line.top_k).arg(wayName(line.way)),
          tr("between nodes: %1 a token").arg(formatBytes(line.network)),
          tr("inside nodes: %1 a token").arg(formatBytes(line.nvlink))};
}

QString BytesAgainstKPanel::status() const {
  return tr("uniform routing");
}

QString BytesAgainstKPanel::csv() const {
  QString text = QStringLiteral("K,all-to-all,network [bytes/token],NVLink [bytes/token]\n");
  for (const Line& line : lines_)
    text += QStringLiteral("%1,%2,%3,%4\n")
                .arg(line.top_k)
                .arg(wayName(line.way))
                .arg(line.network, 0, 'f', 2)
                .arg(line.nvlink, 0, 'f', 2);
  return text;
}

QString BytesAgainstKPanel::explain() const {
  return tr(
      "<p><b>Bytes with another K</b>, with this run's experts, ranks and nodes: 4,096 tokens routed uniformly at "
      "random, their copies counted exactly. A sweep with synthetic routing, not this run's.</p><p>Standard grows with "
      "K without limit. DeepEP grows until every node and rank has a copy: the more experts a token has, the more of "
      "them share a rank.</p>");
}

}  // namespace moescope
