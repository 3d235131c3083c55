#include "widgets/all_to_all/all_to_all_panel.h"

#include <QApplication>
#include <QPainter>
#include <algorithm>
#include <utility>

#include "widgets/all_to_all/link_bars.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/csv.h"
#include "widgets/panel/layer_combo.h"

namespace moescope {
namespace {

constexpr int kLeastMatrix = 64, kLeastBar = 56, kMostBar = 320;  // logical pixels at the usual font size

QFont figureType() {
  return typeFont(QApplication::font(), Type::body, true);
}

constexpr double kEvenRanks = 1.05;  // fullest rank over the mean; below it, no rank is named

const std::vector<std::uint32_t>& copiesOf(const VolumeFrame& volume, bool deduplicated) {
  return deduplicated ? volume.distinct_RR : volume.copies_RR;
}

std::uint64_t movedOf(const std::vector<std::uint32_t>& copies, int ranks, int source, int destination) {
  return source == destination ? 0 : copies[static_cast<std::size_t>(source) * ranks + destination];
}

double sentBy(const std::vector<std::uint32_t>& copies, int ranks, int rank) {
  std::uint64_t sum = 0;
  for (int to = 0; to < ranks; ++to) sum += movedOf(copies, ranks, rank, to);
  return static_cast<double>(sum);
}

// Returns the copies that arrive on each rank, [R], including the copies that stay on it.
std::vector<double> receivedBy(const std::vector<std::uint32_t>& copies, int ranks) {
  std::vector<double> received(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < copies.size(); ++i) received[i % received.size()] += copies[i];
  return received;
}

}  // namespace

RankMatrix::RankMatrix(QWidget* parent) : MatrixPlot(parent) {
  setWeights(sequentialWeights());
}

void RankMatrix::setReceived(std::vector<double> received_R, int ranks_per_node) {
  received_ = std::move(received_R);
  ranks_per_node_ = ranks_per_node;
}

int RankMatrix::fullest() const {
  return received_.empty() ? -1 : static_cast<int>(std::ranges::max_element(received_) - received_.begin());
}

int RankMatrix::labelWidth() const {
  return QFontMetrics(semibold(font())).horizontalAdvance(QString::number(std::max(0, rows() - 1)));
}

int RankMatrix::leastBarsWidth() const {
  const int figure = QFontMetrics(semibold(font())).horizontalAdvance(QStringLiteral("00.00"));
  return labelWidth() + kSpace4 + withType(kLeastBar) + kSpace4 + figure;
}

int RankMatrix::figuresWidth() const {
  int widest = 0;
  for (const Figure& figure : figures_)
    widest = std::max({widest, fontMetrics().horizontalAdvance(figure.name),
                       QFontMetrics(figureType()).horizontalAdvance(figure.value)});
  return widest + 1;
}

RankMatrix::Parts RankMatrix::parts() const {
  const int left = std::max(labelWidth(), fontMetrics().horizontalAdvance("from")) + withType(kSpace8);
  const QRect room = rect().adjusted(left, kSpace4, -1, -fontMetrics().height() - kSpace4);
  const int gap = withType(kSpace16), whole = std::max(1, std::min(room.width(), room.height()));
  Parts parts;
  parts.matrix = QRect(room.topLeft(), QSize(whole, whole));
  for (const bool with_figures : {true, false}) {
    const int figures = with_figures && !figures_.empty() ? gap + figuresWidth() : 0;
    const int side = std::min(whole, room.width() - gap - leastBarsWidth() - figures);
    if (side < std::min(whole, withType(kLeastMatrix))) continue;
    parts.matrix.setSize({side, side});
    parts.bars = QRect(parts.matrix.right() + 1 + gap, room.top(), 0, side);
    parts.bars.setRight(std::min(room.right() - figures, parts.bars.left() + withType(kMostBar)));
    if (figures) parts.figures = QRect(parts.bars.right() + 1 + gap, 0, figures - gap, height());
    return parts;
  }
  return parts;
}

QMargins RankMatrix::margins() const {
  const QRect matrix = parts().matrix;
  return {matrix.left(), matrix.top(), width() - 1 - matrix.right(), height() - 1 - matrix.bottom()};
}

double RankMatrix::barScale() const {
  const int rank = fullest();
  const int figure = QFontMetrics(semibold(font())).horizontalAdvance(QStringLiteral("00.00"));
  const double room = parts().bars.width() - labelWidth() - 2 * kSpace4 - figure;
  return rank < 0 ? 0 : room / std::max(1.0, received_[rank]);
}

QRectF RankMatrix::barRect(int rank) const {
  const QRect bars = parts().bars;
  if (bars.isEmpty() || rank < 0 || rank >= std::ssize(received_)) return {};
  const QRectF cell = cellRect(rank, 0);
  const double gap = cell.height() < 4 ? 0 : 1, left = bars.left() + labelWidth() + kSpace4;
  return {left, cell.top() + gap, received_[rank] * barScale(), cell.height() - 2 * gap};
}

QRect RankMatrix::figureRect(int figure) const {
  const QRect column = parts().figures;
  const int count = static_cast<int>(figures_.size());
  const int least = fontMetrics().height() + QFontMetrics(figureType()).height();
  const int fitting = std::min(count, height() / std::max(1, least));
  if (column.isEmpty() || figure >= fitting) return {};
  const int pitch = std::min(height() / std::max(1, fitting), least + withType(kSpace12));
  return {column.left(), figure * pitch, column.width(), least};
}

int RankMatrix::barAt(QPoint position) const {
  const QRect bars = parts().bars;
  if (!bars.contains(position) || rows() == 0) return -1;
  return std::min(rows() - 1, (position.y() - bars.top()) * rows() / bars.height());
}

std::optional<FigureTarget> RankMatrix::figureAt(QPoint position) const {
  if (!notice().isEmpty()) return std::nullopt;
  for (int i = 0; i < std::ssize(figures_); ++i)
    if (figureRect(i).contains(position)) return figures_[i].target;
  if (barAt(position) >= 0) return receivedFigure;
  return MatrixPlot::figureAt(position);
}

QStringList RankMatrix::readoutAt(QPoint position) const {
  const int rank = barAt(position);
  return rank >= 0 && describeReceived ? describeReceived(rank) : MatrixPlot::readoutAt(position);
}

void RankMatrix::paintData(QPainter& painter) {
  MatrixPlot::paintData(painter);
  if (rows() == 0) return;
  paintNodes(painter);
  paintRowLabels(painter);
  paintColumnLabels(painter);
  if (!parts().bars.isEmpty()) paintBars(painter);
  paintFigures(painter);
}

void RankMatrix::paintNodes(QPainter& painter) const {
  const QRect cells = cellsRect();
  painter.setPen(QPen(palette().text().color(), 0));
  for (int rank = ranks_per_node_; ranks_per_node_ > 0 && rank < rows(); rank += ranks_per_node_) {
    const QPointF corner = cellRect(rank, rank).topLeft();
    painter.drawLine(QPointF(cells.left(), corner.y()), QPointF(cells.right(), corner.y()));
    painter.drawLine(QPointF(corner.x(), cells.top()), QPointF(corner.x(), cells.bottom()));
  }
}

// Paints the numbers of the first and the last rank, and between them the name of the axis.
void RankMatrix::paintRowLabels(QPainter& painter) const {
  const QRect cells = cellsRect();
  const int line = fontMetrics().height(), right = cells.left() - kSpace4;
  const auto draw = [&](double y, const QString& text) {
    painter.drawText(QRectF(0, y - line / 2.0, right, line), Qt::AlignRight | Qt::AlignVCenter, text);
  };
  painter.setPen(mutedText(palette()));
  const double first = cellRect(0, 0).center().y(), last = cellRect(rows() - 1, 0).center().y();
  draw(first, QString::number(0));
  if (last - first >= line) draw(last, QString::number(rows() - 1));
  if (last - first >= 2 * line) draw((first + last) / 2, "from");
}

// Paints the numbers of the first, the last and the fullest rank below the matrix; leaves out labels that would touch
// an earlier label.
void RankMatrix::paintColumnLabels(QPainter& painter) const {
  const int line = fontMetrics().height(), top = cellsRect().bottom() + 1 + kSpace4 / 2;
  std::vector<QRectF> taken;
  const auto draw = [&](double x, const QString& text, bool strong) {
    painter.setFont(strong ? semibold(font()) : font());
    painter.setPen(strong ? palette().text().color() : mutedText(palette()));
    const double width = painter.fontMetrics().horizontalAdvance(text);
    const QRectF place(x - width / 2, top, width, line);
    const auto touches = [&](const QRectF& other) { return other.adjusted(-kSpace4, 0, kSpace4, 0).intersects(place); };
    if (std::ranges::any_of(taken, touches)) return false;
    painter.drawText(place.adjusted(-1, 0, 1, 0), Qt::AlignCenter, text);
    taken.push_back(place);
    return true;
  };
  const auto centre = [&](int rank) { return cellRect(0, rank).center().x(); };
  if (fullest() >= 0) draw(centre(fullest()), QString::number(fullest()), true);
  draw(centre(0), QString::number(0), false);
  draw(centre(rows() - 1), QString::number(rows() - 1), false);
  const double middle = (centre(0) + centre(rows() - 1)) / 2, aside = withType(kSpace16);
  for (const double x : {middle, middle - aside, middle + aside})
    if (draw(x, "to", false)) break;
  painter.setFont(font());
}

void RankMatrix::paintBars(QPainter& painter) const {
  const QRect bars = parts().bars;
  const Colors& c = colors(palette());
  const int line = fontMetrics().height(), strong = fullest();
  const double pitch = cellRect(0, 0).height();
  const int every = std::max(1, static_cast<int>((fontMetrics().capHeight() + 2) / pitch + 0.999));
  for (int rank = 0; rank < rows(); ++rank) {
    const QRectF bar = barRect(rank);
    painter.fillRect(bar, QColor(rank == strong ? c.strong_bar : c.plain_bar));
    if (rank != strong && (rank % every != 0 || std::abs(rank - strong) < every)) continue;
    painter.setFont(rank == strong ? semibold(font()) : font());
    painter.setPen(rank == strong ? palette().text().color() : mutedText(palette()));
    painter.drawText(QRectF(bars.left(), bar.center().y() - line / 2.0, labelWidth(), line),
                     Qt::AlignRight | Qt::AlignVCenter, QString::number(rank));
    if (rank == strong)
      painter.drawText(QRectF(bar.right() + kSpace4, bar.center().y() - line / 2.0, width(), line),
                       Qt::AlignLeft | Qt::AlignVCenter, QString::number(received_[rank], 'f', 2));
  }
  painter.setFont(font());
  const double mean = barRect(0).left() + barScale();
  painter.setPen(QPen(palette().text().color(), 1, Qt::DashLine));
  painter.drawLine(QPointF(mean, bars.top()), QPointF(mean, bars.bottom() + 2));
  painter.setPen(mutedText(palette()));
  const int left = static_cast<int>(barRect(0).left());
  painter.drawText(QRect(left, bars.bottom() + 1 + kSpace4 / 2, width(), line), Qt::AlignLeft | Qt::AlignVCenter,
                   fittingText({"received, \u00d7 mean", "\u00d7 mean"}, fontMetrics(), bars.right() - left));
}

void RankMatrix::paintFigures(QPainter& painter) const {
  for (int i = 0; i < std::ssize(figures_); ++i) {
    const QRect place = figureRect(i);
    if (place.isEmpty()) return;
    const Figure& figure = figures_[i];
    painter.setFont(font());
    painter.setPen(mutedText(palette()));
    painter.drawText(place, Qt::AlignLeft | Qt::AlignTop, figure.name);
    painter.setFont(figureType());
    painter.setPen(palette().text().color());
    painter.drawText(place, Qt::AlignLeft | Qt::AlignBottom, figure.value);
  }
  painter.setFont(font());
}

AllToAllPanel::AllToAllPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "All-to-all", Provenance::counted, parent) {
  showAnswers();
  view_ = new RankMatrix(this);
  view_->refill = [this] { refill(); };
  view_->figure = [this](int, int) { return figure(deduplicated() ? FigureKey("distinct") : FigureKey("copies")); };
  view_->describe = [this](int source, int destination) { return describe(source, destination); };
  view_->describeReceived = [this](int rank) { return describeReceived(rank); };
  followSelection(view_);
  connect(view_, &MatrixPlot::cellChosen, this, [this](int source, int destination) {
    view_->setCurrent(source, destination);
    view_->update();
  });
  payload_ = makeChoice({"BF16", "FP8", "MXFP8"}, "Token format",
                        "A token's row of D values in the all-to-all\n"
                        "BF16: 2 D bytes\n"
                        "FP8: D + 4 D / 128, DeepEP's dispatch\n"
                        "MXFP8: D + D / 32");
  addControl(payload_);
  mode_ = makeChoice({"standard", "DeepEP"}, "Kind of all-to-all",
                     "standard: one copy per chosen expert\n"
                     "DeepEP: de-duplicated, one copy per destination rank");
  addOption(mode_);
  for (const QComboBox* choice : {payload_, mode_}) {
    connect(choice, &QComboBox::currentIndexChanged, view_, &PlotFrame::markDirty);
    connect(choice, &QComboBox::currentIndexChanged, this, qOverload<>(&QWidget::update));
  }
  addOption(new LayerCombo(selection, this));
  addBody(view_);
  keepState("mode", mode_);
  keepState("payload", payload_);
}

const VolumeFrame* AllToAllPanel::volume(const TelemetryFrame* frame) const {
  const VolumeFrame* volume = volumeOf(frame, selection_->layer());
  if (!volume) return nullptr;
  const auto cells = static_cast<std::size_t>(volume->ranks) * volume->ranks;
  const bool whole = cells > 0 && volume->copies_RR.size() == cells && volume->distinct_RR.size() == cells;
  return whole ? volume : nullptr;
}

QString AllToAllPanel::status() const {
  const auto shown = selection_->frame();
  if (!shown) return {};
  QStringList parts{QString("layer %1").arg(selection_->layer())};
  if (deduplicated()) parts << QString("DeepEP");
  parts << timeStatus(shown->step, true) << rowWidth(*selection_->history());
  parts.removeAll(QString());
  return parts.join(QStringLiteral(", "));
}

Panel::Answer AllToAllPanel::answer() const {
  const auto shown = selection_->frame();
  const VolumeFrame* volume = this->volume(shown.get());
  if (!volume) return {};
  const std::vector<double> received = receivedBy(copiesOf(*volume, deduplicated()), volume->ranks);
  const auto fullest = std::ranges::max_element(received) - received.begin();
  const DispatchTotals totals = dispatch_totals(*volume, deduplicated());
  if (!(totals.received > 0)) return {};
  const QString question = "What does routing cost?";
  const QString most = QString("%1 \u00d7 the mean").arg(totals.max_over_mean, 0, 'f', 2);
  if (totals.max_over_mean < kEvenRanks)
    return {question,
            {QString("All ranks receive about the same: at most %1").arg(most),
             QString("Ranks are even: at most %1").arg(most)}};
  return {question,
          {QString("The step waits for rank %1: %2").arg(fullest).arg(most),
           QString("Rank %1 gets %2").arg(fullest).arg(most)}};
}

void AllToAllPanel::refill() {
  const History* history = selection_->history();
  shown_.reset();
  if (!hasSteps(view_)) return;
  shown_ = selection_->frame();
  const VolumeFrame* volume = this->volume(shown_.get());
  if (!volume) return view_->setNotice(notInLogNotice(history->info(), "copies between ranks"));
  view_->setNotice({});
  fillMatrix(*volume);
  fillFigures(*volume);
}

// Scales the cells of both kinds by the largest standard volume, so that switching shows what is saved.
void AllToAllPanel::fillMatrix(const VolumeFrame& volume) {
  std::uint64_t top = 1;
  std::vector<std::uint8_t> codes;
  for (int s = 0; s < volume.ranks; ++s)
    for (int d = 0; d < volume.ranks; ++d) top = std::max(top, movedOf(volume.copies_RR, volume.ranks, s, d));
  for (int s = 0; s < volume.ranks; ++s)
    for (int d = 0; d < volume.ranks; ++d) {
      const auto moved = movedOf(copiesOf(volume, deduplicated()), volume.ranks, s, d);
      codes.push_back(s == d ? kNoDataCode : scaleCode(static_cast<double>(moved) / static_cast<double>(top)));
    }
  view_->setCells(volume.ranks, volume.ranks, std::move(codes));
  view_->setLegend({.lut = matrixLut(isDark(palette())), .ticks = {}, .caption = {}});
}

void AllToAllPanel::fillFigures(const VolumeFrame& volume) {
  const DispatchTotals standard = dispatch_totals(volume, false), lean = dispatch_totals(volume, true);
  const DispatchTotals& now = deduplicated() ? lean : standard;
  std::vector<double> received = receivedBy(copiesOf(volume, deduplicated()), volume.ranks);
  for (double& each : received) each *= now.received > 0 ? volume.ranks / now.received : 0;
  view_->setReceived(std::move(received), volume.ranks_per_node);
  view_->receivedFigure = figure("dispatch_overload");
  view_->setFigures(
      {{"sent a step", formatBytes(now.moved * bytesPerCopy()), figure("bytes_moved")},
       {"between nodes", formatBytes(now.across_nodes * bytesPerCopy()), figure("bytes_across_nodes")},
       {"merged by DeepEP", standard.moved > 0 ? formatPercent(1 - lean.moved / standard.moved) : QString("nothing"),
        figure("bytes_saved")}});
}

QStringList AllToAllPanel::describe(int source, int destination) const {
  const VolumeFrame* volume = this->volume(shown_.get());
  if (!volume) return {};
  if (source == destination) return {QString("rank %1 to itself: not sent").arg(source)};
  const auto place = static_cast<std::size_t>(source) * volume->ranks + destination;
  const double standard = volume->copies_RR[place], distinct = volume->distinct_RR[place];
  const double out = sentBy(copiesOf(*volume, deduplicated()), volume->ranks, source);
  return {QString("rank %1 to rank %2").arg(source).arg(destination),
          QString("standard: %1 copies, %2").arg(formatCount(standard), formatBytes(standard * bytesPerCopy())),
          QString("DeepEP: %1 copies, %2").arg(formatCount(distinct), formatBytes(distinct * bytesPerCopy())),
          QString("rank %1 sends %2 in all").arg(source).arg(formatBytes(out * bytesPerCopy()))};
}

QStringList AllToAllPanel::describeReceived(int rank) const {
  const VolumeFrame* volume = this->volume(shown_.get());
  if (!volume || rank >= volume->ranks) return {};
  const auto& copies = copiesOf(*volume, deduplicated());
  const double all = receivedBy(copies, volume->ranks)[rank];
  const double own = copies[static_cast<std::size_t>(rank) * volume->ranks + rank];
  const double mean = dispatch_totals(*volume, deduplicated()).received / volume->ranks;
  return {
      QString("rank %1 receives %2 \u00d7 the mean").arg(rank).arg(mean > 0 ? all / mean : 0, 0, 'f', 2),
      QString("%1 copies from other ranks, %2").arg(formatCount(all - own), formatBytes((all - own) * bytesPerCopy())),
      QString("%1 copies of its own tokens").arg(formatCount(own))};
}

FigureTarget AllToAllPanel::figure(FigureKey key) const {
  return {.key = key,
          .layer = selection_->layer(),
          .other = deduplicated() ? 1 : 0,
          .step = selection_->step(),
          .parameter = bytesPerCopy()};
}

QString AllToAllPanel::csv() const {
  QString text = QStringLiteral(
      "step,layer,from rank,to rank,standard [copies],standard [bytes],DeepEP [copies],DeepEP [bytes]\n");
  const auto shown = selection_->frame();
  const VolumeFrame* volume = this->volume(shown.get());
  if (!volume) return text;
  for (int s = 0; s < volume->ranks; ++s)
    for (int d = 0; d < volume->ranks; ++d) {
      const auto place = static_cast<std::size_t>(s) * volume->ranks + d;
      const double standard = volume->copies_RR[place], distinct = volume->distinct_RR[place];
      text += csvRow(shown->step, selection_->layer(), s, d, QString::number(standard, 'f', 0),
                     QString::number(standard * bytesPerCopy(), 'f', 0), QString::number(distinct, 'f', 0),
                     QString::number(distinct * bytesPerCopy(), 'f', 0));
    }
  return text;
}

}  // namespace moescope
