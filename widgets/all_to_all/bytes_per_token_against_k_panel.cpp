#include "widgets/all_to_all/bytes_per_token_against_k_panel.h"

#include <algorithm>

#include "core/parallel/routing_patterns.h"
#include "widgets/all_to_all/link_bars.h"
#include "widgets/panel/csv.h"

namespace moescope {
namespace {

constexpr std::int64_t kSweepTokens = 4096;
constexpr int kMaxTopK = 16;

}  // namespace

BytesPerTokenAgainstKPanel::BytesPerTokenAgainstKPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Bytes per token against K", Provenance::counted, parent) {
  showAnswers();
  payload_ = makeChoice({"BF16", "FP8", "MXFP8"}, "Token format");
  addControl(payload_);
  plot_ = new BandBars(this);
  plot_->setFormatter([](double bytes) { return formatBytes(bytes); });
  plot_->setLegend(linkLegend());
  plot_->refill = [this] { refill(); };
  plot_->describe = [this](int row) { return describe(row); };
  for (auto signal : {&Selection::dataChanged, &Selection::focusChanged})
    connect(selection_, signal, plot_, &PlotFrame::markDirty);
  connect(payload_, &QComboBox::currentIndexChanged, plot_, &PlotFrame::markDirty);
  addBody(plot_);
}

void BytesPerTokenAgainstKPanel::refill() {
  const History* history = selection_->history();
  if (!history) return plot_->setNotice(noRunNotice());
  const auto frame = selection_->frame();
  const VolumeFrame* volume = volumeOf(frame.get(), selection_->layer());
  if (!volume)
    return plot_->setNotice(history->steps().empty() ? noDataYetNotice(*selection_)
                                                     : notInLogNotice(history->info(), "copies between ranks"));
  const RunInfo& info = history->info();
  const int experts = info.n_experts, ranks = volume->ranks, per_node = volume->ranks_per_node;
  if (experts <= 0 || ranks <= 0 || experts % ranks)
    return plot_->setNotice(QString("%2 experts cannot be divided evenly among %1 ranks").arg(ranks).arg(experts));
  plot_->setNotice({});
  const std::vector<std::int64_t> of{experts, ranks, per_node, info.dim, payload_->currentIndex()};
  if (of == of_) return;
  of_ = of;
  lines_.clear();
  std::vector<BandBars::Row> rows;
  const auto each = static_cast<double>(bytes_per_token(static_cast<Payload>(payload_->currentIndex()), info.dim));
  for (int k = 1; k <= std::min(kMaxTopK, experts); k *= 2) {
    const auto topk = route_by_pattern({RoutingRule::uniform}, kSweepTokens, k, experts);
    const VolumeFrame swept = count_volumes(topk, k, experts, ranks, per_node);
    for (const AllToAll way : {AllToAll::standard, AllToAll::deep_ep}) {
      const LinkCopies copies = total(copies_by_link(swept, way));
      const double per_copy = each / kSweepTokens;
      const Line line{k, way, per_copy * static_cast<double>(copies.network_out),
                      per_copy * static_cast<double>(copies.nvlink_out)};
      const QString mark = k == info.top_k && way == AllToAll::standard ? QString("\tthis run's K") : QString();
      rows.push_back(linkBar(QString("K = %1 %2").arg(k).arg(wayName(way)), line.network, line.nvlink,
                             formatBytes(line.sum()) + mark));
      lines_.push_back(line);
    }
  }
  plot_->setCaption("bytes a token and dispatch");
  plot_->setRows(std::move(rows));
}

QStringList BytesPerTokenAgainstKPanel::describe(int row) const {
  if (row < 0 || row >= static_cast<int>(lines_.size())) return {};
  const Line& line = lines_[row];
  return {QString("K = %1, %2").arg(line.top_k).arg(wayName(line.way)),
          QString("between nodes: %1 a token").arg(formatBytes(line.network)),
          QString("inside nodes: %1 a token").arg(formatBytes(line.nvlink))};
}

QString BytesPerTokenAgainstKPanel::status() const {
  if (of_.empty() || lines_.empty()) return QString("uniform routing");
  return QString("uniform routing, %1 experts, %2 ranks, nodes of %3").arg(of_[0]).arg(of_[1]).arg(of_[2]);
}

// The lines are in pairs with the same K: standard, then DeepEP.
Panel::Answer BytesPerTokenAgainstKPanel::answer() const {
  if (lines_.empty() || !plot_->notice().isEmpty()) return {};
  const QString question = "When does DeepEP send fewer bytes?";
  for (std::size_t i = 0; i + 1 < lines_.size(); i += 2)
    if (lines_[i + 1].sum() < lines_[i].sum())
      return {question,
              {QString("From K = %1 on: %2 a token, standard %3")
                   .arg(lines_[i].top_k)
                   .arg(formatBytes(lines_[i + 1].sum()), formatBytes(lines_[i].sum())),
               QString("From K = %1 on").arg(lines_[i].top_k)}};
  return {
      question,
      {QString("At no K up to %1: forwarding inside nodes adds more bytes than DeepEP saves").arg(lines_.back().top_k),
       QString("At no K up to %1").arg(lines_.back().top_k)}};
}

QString BytesPerTokenAgainstKPanel::csv() const {
  QString text = QStringLiteral("K,all-to-all,network [bytes/token],NVLink [bytes/token]\n");
  for (const Line& line : lines_)
    text += csvRow(line.top_k, wayName(line.way), QString::number(line.network, 'f', 2),
                   QString::number(line.nvlink, 'f', 2));
  return text;
}

}  // namespace moescope
