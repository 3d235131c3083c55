#include "widgets/all_to_all/all_to_all_panel.h"

#include <QPainter>
#include <algorithm>
#include <numeric>

#include "core/telemetry/frame/volume_stats.h"
#include "widgets/all_to_all/link_bars.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/panel/metric_text.h"

namespace moescope {
namespace {

constexpr int kSumBar = 30;  // logical pixels for the bars of row and column sums

const std::vector<std::uint32_t>& copiesOf(const VolumeFrame& volume, bool deduplicated) {
  return deduplicated ? volume.distinct_RR : volume.copies_RR;
}

// Over the diagonal, which does not move.
QColor veil(const QPalette& palette) {
  QColor color = palette.base().color();
  color.setAlpha(120);
  return color;
}

QColor veiled(const QColor& color, const QPalette& palette) {
  const QColor over = veil(palette);
  const auto mixed = [&](int below, int above) { return below + (above - below) * over.alpha() / 255; };
  return {mixed(color.red(), over.red()), mixed(color.green(), over.green()), mixed(color.blue(), over.blue())};
}

std::vector<double> sums(const std::vector<std::uint32_t>& copies, int ranks, bool of_columns) {
  std::vector<double> result(ranks, 0);
  for (int s = 0; s < ranks; ++s)
    for (int d = 0; d < ranks; ++d)
      if (s != d) result[of_columns ? d : s] += copies[static_cast<std::size_t>(s) * ranks + d];
  return result;
}

}  // namespace

AllToAllPanel::AllToAllPanel(Selection* selection, QWidget* parent)
    : Panel(selection, tr("All-to-all"), Provenance::counted, parent) {
  view_ = new MatrixPlot(this);
  view_->refill = [this] { refill(); };
  view_->figure = [this](int, int) {
    return FigureTarget{.key = mode_->currentIndex() == 1 ? FigureKey("distinct") : FigureKey("copies"),
                        .layer = selection_->layer(),
                        .step = selection_->step()};
  };
  view_->describe = [this](int source, int destination) { return describe(source, destination); };
  view_->decorate = [this](QPainter& painter) { paintSums(painter); };
  view_->setWeights(sequentialWeights());
  followFont(view_, [this] {
    const QFontMetrics metrics = view_->fontMetrics();
    view_->setExtraMargins({0, withType(10, metrics), kSumBar + withType(18, metrics), kSumBar - 4});
  });
  view_->setSquare(true);
  connect(selection_, &Selection::dataChanged, view_, &PlotFrame::markDirty);
  connect(selection_, &Selection::timeChanged, view_, &PlotFrame::markDirty);
  connect(selection_, &Selection::focusChanged, view_, &PlotFrame::markDirty);
  connect(view_, &MatrixPlot::cellChosen, this, [this](int source, int destination) {
    view_->setCurrent(source, destination);
    view_->update();
  });

  mode_ = new QComboBox(this);
  mode_->addItems({tr("standard"), tr("DeepEP")});
  mode_->setAccessibleName(tr("Kind of all-to-all"));
  mode_->setToolTip(tr("standard: one copy per chosen expert\nDeepEP: de-duplicated, one copy per destination rank"));
  connect(mode_, &QComboBox::currentIndexChanged, this, [this] {
    view_->markDirty();
    for (ValueTile* tile : tiles_) tile->update();
  });
  addControl(mode_);
  payload_ = new QComboBox(this);
  payload_->addItems({tr("BF16"), tr("FP8"), tr("MXFP8")});
  payload_->setAccessibleName(tr("Payload"));
  payload_->setToolTip(
      tr("A token's row of D values in the all-to-all\n"
         "BF16: 2 D bytes\n"
         "FP8: D + 4 D / 128, DeepEP's dispatch\n"
         "MXFP8: D + D / 32"));
  connect(payload_, &QComboBox::currentIndexChanged, this, [this] {
    view_->markDirty();
    for (ValueTile* tile : tiles_) tile->update();
  });
  addControl(payload_);
  addControl(new LayerCombo(selection, this));

  auto* row = new QWidget(this);
  auto* layout = new QHBoxLayout(row);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(2);
  const QStringList names{tr("moved"), tr("across nodes"), tr("max/mean"), tr("saved")};
  const QStringList tips{tr("Leaves its rank in this layer's dispatch"), tr("Crosses from node to node"),
                         tr("Received copies, own ones included: fullest rank over the mean"),
                         tr("Moved copies that DeepEP's merging per rank avoids")};
  for (int i = 0; i < 4; ++i) {
    tiles_[i] = new ValueTile(
        selection, names[i], [this, i] { return totalText(i); }, row);
    tiles_[i]->setToolTip(tips[i]);
    tiles_[i]->figure = [this, i] { return totalFigure(i); };
    tiles_[i]->setFocusPolicy(Qt::NoFocus);
    layout->addWidget(tiles_[i]);
  }
  addBody(row, 0);
  addBody(view_);
}

double AllToAllPanel::bytesPerCopy() const {
  return static_cast<double>(bytes_per_token(payload(), selection_->history()->info().dim));
}

QString AllToAllPanel::bytesRule() const {
  switch (payload()) {
    case Payload::fp8:
      return tr("D + 4 D / 128 (FP8)");
    case Payload::mxfp8:
      return tr("D + D / 32 (MXFP8)");
    default:
      return tr("2 D (BF16)");
  }
}

std::shared_ptr<const TelemetryFrame> AllToAllPanel::frame() const {
  return selection_->frame();
}

const VolumeFrame* AllToAllPanel::volume(const std::shared_ptr<const TelemetryFrame>& frame) const {
  if (!frame) return nullptr;
  const auto router = std::ranges::find(frame->routers, selection_->layer(), &RouterFrame::layer);
  if (router == frame->routers.end()) return nullptr;
  const VolumeFrame& volume = router->volume;
  const auto cells = static_cast<std::size_t>(volume.ranks) * volume.ranks;
  const bool whole = cells > 0 && volume.copies_RR.size() == cells && volume.distinct_RR.size() == cells;
  return whole ? &volume : nullptr;
}

QString AllToAllPanel::status() const {
  const auto shown = frame();
  if (!shown) return {};
  return timeStatus(shown->step, true) + QStringLiteral(", ") + rowWidth(*selection_->history());
}

void AllToAllPanel::refill() {
  const History* history = selection_->history();
  shown_.reset();
  if (!history) return view_->setNotice(noRunNotice());
  if (history->steps().empty()) return view_->setNotice(noDataYetNotice());
  shown_ = frame();
  const VolumeFrame* volume = this->volume(shown_);
  if (!volume) return view_->setNotice(notInLogNotice(history->info(), tr("copies between ranks")));
  view_->setNotice({});
  const auto& copies = copiesOf(*volume, deduplicated());
  // The standard volumes set the scale for both, so that switching shows what is saved.
  const double top = std::max(1u, *std::ranges::max_element(volume->copies_RR));
  std::vector<std::uint8_t> codes(copies.size());
  std::ranges::transform(copies, codes.begin(), [top](std::uint32_t count) { return scaleCode(count / top); });
  view_->setCells(volume->ranks, volume->ranks, std::move(codes));
  LegendScale legend{.lut = viridisLut(isDark(palette())), .ticks = {}, .caption = tr("bytes")};
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0})
    legend.ticks.push_back({share, formatBytes(share * top * bytesPerCopy())});
  legend.swatches = {{veiled(QColor(legend.lut[128]), palette()), tr("itself")}};
  view_->setLegend(legend);
  std::vector<Tick> ticks;
  for (int rank = 0; rank < volume->ranks; ++rank) ticks.push_back({static_cast<double>(rank), QString::number(rank)});
  view_->setRowAxis(ticks, tr("from rank"));
  const QStringList captions = {tr("to rank;  dispatch, counted, bytes = copies x %1").arg(bytesRule()),
                                tr("to rank; copies x %1").arg(bytesRule()), tr("to rank")};
  view_->setColumnAxis(ticks, firstThatFits(captions, view_->fontMetrics(), view_->cellsRect().width()));
}

// Borders of nodes, and the sums of what leaves each rank (right) and reaches it (below).
void AllToAllPanel::paintSums(QPainter& painter) const {
  const VolumeFrame* volume = this->volume(shown_);
  if (!volume) return;
  const QRect cells = view_->cellsRect();
  const int ranks = volume->ranks, per_node = volume->ranks_per_node;
  for (int rank = 0; rank < ranks; ++rank) painter.fillRect(view_->cellRect(rank, rank), veil(palette()));
  painter.setPen(QPen(QColor(colors(palette()).ink), 0));
  for (int rank = per_node; per_node > 0 && rank < ranks; rank += per_node) {
    const QPointF corner = view_->cellRect(rank, rank).topLeft();
    painter.drawLine(QPointF(cells.left(), corner.y()), QPointF(cells.right(), corner.y()));
    painter.drawLine(QPointF(corner.x(), cells.top()), QPointF(corner.x(), cells.bottom()));
  }
  const auto& copies = copiesOf(*volume, deduplicated());
  const auto out = sums(copies, ranks, false), in = sums(copies, ranks, true);
  const double top = std::max({1.0, *std::ranges::max_element(out), *std::ranges::max_element(in)});
  const QFont small = scaledFont(painter.font(), 0.85);
  painter.setFont(small);
  painter.setPen(mutedText(palette()));
  painter.drawText(QPoint(cells.right() + 4, cells.top() - 3), tr("sends"));
  painter.drawText(QPoint(cells.right() + 4, cells.bottom() + withType(16, view_->fontMetrics())), tr("receives"));
  const QColor bar = seriesColor(0, isDark(palette())), hottest = seriesColor(1, isDark(palette()));
  const auto hot = std::ranges::max_element(in) - in.begin();
  for (int rank = 0; rank < ranks; ++rank) {
    const QRectF cell = view_->cellRect(rank, rank);
    painter.fillRect(QRectF(cells.right() + 4, cell.top() + 1, kSumBar * out[rank] / top, cell.height() - 2), bar);
    painter.fillRect(QRectF(cell.left() + 1, cells.bottom() + 4, cell.width() - 2, (kSumBar - 10) * in[rank] / top),
                     rank == hot ? hottest : bar);
  }
}

QStringList AllToAllPanel::describe(int source, int destination) const {
  const VolumeFrame* volume = this->volume(shown_);
  if (!volume) return {};
  const auto place = static_cast<std::size_t>(source) * volume->ranks + destination;
  const double standard = volume->copies_RR[place], distinct = volume->distinct_RR[place];
  const auto in = sums(copiesOf(*volume, deduplicated()), volume->ranks, true);
  const auto out = sums(copiesOf(*volume, deduplicated()), volume->ranks, false);
  return {source == destination ? tr("rank %1 to itself: not moved").arg(source)
                                : tr("rank %1 to rank %2").arg(source).arg(destination),
          tr("standard: %1 copies, %2").arg(formatCount(standard), formatBytes(standard * bytesPerCopy())),
          tr("DeepEP: %1 copies, %2").arg(formatCount(distinct), formatBytes(distinct * bytesPerCopy())),
          tr("rank %1 sends %2").arg(source).arg(formatBytes(out[source] * bytesPerCopy())),
          tr("rank %1 receives %2").arg(destination).arg(formatBytes(in[destination] * bytesPerCopy()))};
}

FigureTarget AllToAllPanel::totalFigure(int which) const {
  static constexpr FigureKey kKeys[] = {"bytes_moved", "bytes_across_nodes", "dispatch_overload", "bytes_saved"};
  return {.key = kKeys[which],
          .layer = selection_->layer(),
          .other = deduplicated() ? 1 : 0,
          .step = selection_->step(),
          .parameter = bytesPerCopy()};
}

QString AllToAllPanel::totalText(int which) const {
  const auto shown = frame();
  const VolumeFrame* volume = this->volume(shown);
  if (!volume) return tr("no data");
  const DispatchTotals standard = dispatch_totals(*volume, false), lean = dispatch_totals(*volume, true);
  const DispatchTotals& now = deduplicated() ? lean : standard;
  switch (which) {
    case 0:
      return formatBytes(now.moved * bytesPerCopy());
    case 1:
      return formatBytes(now.across_nodes * bytesPerCopy());
    case 2:
      return formatValue(now.max_over_mean, 3);
    default:
      return standard.moved > 0 ? formatPercent(1 - lean.moved / standard.moved) : tr("nothing moved");
  }
}

QString AllToAllPanel::csv() const {
  QString text = QStringLiteral(
      "step,layer,from rank,to rank,standard [copies],standard [bytes],DeepEP [copies],DeepEP [bytes]\n");
  const auto shown = frame();
  const VolumeFrame* volume = this->volume(shown);
  if (!volume) return text;
  for (int s = 0; s < volume->ranks; ++s)
    for (int d = 0; d < volume->ranks; ++d) {
      const auto place = static_cast<std::size_t>(s) * volume->ranks + d;
      const double standard = volume->copies_RR[place], distinct = volume->distinct_RR[place];
      text += QStringLiteral("%1,%2,%3,%4,").arg(shown->step).arg(selection_->layer()).arg(s).arg(d) +
              QStringLiteral("%1,%2,%3,%4\n")
                  .arg(standard, 0, 'f', 0)
                  .arg(standard * bytesPerCopy(), 0, 'f', 0)
                  .arg(distinct, 0, 'f', 0)
                  .arg(distinct * bytesPerCopy(), 0, 'f', 0);
    }
  return text;
}

QString AllToAllPanel::explain() const {
  return tr("<p><b>Token copies that the dispatch of one layer sends from rank to rank</b>, counted from this step's "
            "real routing; combine is the transpose. Ranks are virtual: tokens are split evenly, experts are placed in "
            "order. Bytes = copies x a token's row of D values: 2 D in BF16, D + 4 D / 128 in FP8, D + D / 32 in "
            "MXFP8. Only the counts are of this run, whatever its payload. Latent experts "
            "(<code>model.latent_dim</code>; Megatron-LM's <code>moe_latent_size</code>) get rows of Dl values in "
            "place of D: as many copies, of Dl / D of the bytes.</p><p><b>moved</b> leaves out the diagonal "
            "(veiled), which stays on its rank. <b>max/mean</b> is the load of the fullest rank, own tokens included: "
            "all others wait for it; its bar is orange. <b>saved</b>: moved copies that merging per destination rank "
            "avoids. Lines are borders of nodes.</p>") +
         metricCards({"copies", "distinct", "nodes"});
}

QVariantMap AllToAllPanel::saveState() const {
  return {{QStringLiteral("mode"), mode_->currentIndex()}, {QStringLiteral("payload"), payload_->currentIndex()}};
}

void AllToAllPanel::restoreState(const QVariantMap& state) {
  mode_->setCurrentIndex(std::clamp(state.value(QStringLiteral("mode")).toInt(), 0, 1));
  payload_->setCurrentIndex(std::clamp(state.value(QStringLiteral("payload")).toInt(), 0, 2));
}

}  // namespace moescope
