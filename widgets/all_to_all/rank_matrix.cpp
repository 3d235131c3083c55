#include "widgets/all_to_all/rank_matrix.h"

#include <QPainter>
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"

namespace moescope {
namespace {

constexpr int kMinMatrix = 110, kMinBars = 32, kMaxBars = 90;  // pixels at the usual font size
constexpr int kLow = 150;              // height below which the plot has no heading, and a line for each figure
constexpr double kMaxCellRatio = 1.5;  // width over height of a cell
constexpr double kLowestBarTop = 1.2;  // top of the bars of even ranks, multiples of the mean, above the mean's label
constexpr double kThinBar = 4;         // pixels; thinner bars have no gap between them

// "9.7", "13", "163": three digits at most.
QString threeDigits(double value) {
  return QString::number(value, 'f', value < 99.95 && value != std::round(value) ? 1 : 0);
}

}  // namespace

RankMatrix::RankMatrix(QWidget* parent) : MatrixPlot(parent) {
  setWeights(sequentialWeights());
}

void RankMatrix::setBytes(int ranks, std::vector<double> bytes_RR, double largest, double mean) {
  const double top = std::max(largest, 2 * mean);  // even traffic has the middle of the scale
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (unit_bytes_ = 1; top / unit_bytes_ >= 999.5 && unit + 1 < kUnits.size(); ++unit) unit_bytes_ *= 1000;
  bytes_ = std::move(bytes_RR);
  std::vector<std::uint8_t> codes;
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    const bool is_own_rank = i / ranks == i % static_cast<std::size_t>(ranks);
    codes.push_back(is_own_rank || !(top > 0) ? kNoDataCode : scaleCode(bytes_[i] / top));
  }
  setCells(ranks, ranks, std::move(codes));
  LegendScale legend{.lut = matrixLut(isDark(palette())),
                     .low = "0",
                     .high = threeDigits(top / unit_bytes_),
                     .caption = QString("%1, mean %2").arg(kUnits[unit], threeDigits(mean / unit_bytes_)),
                     .mark = top > 0 ? mean / top : -1};
  legend.swatches = {{QColor(legend.lut[kNoDataCode]), "own rank"}};
  setLegend(legend);
}

void RankMatrix::setReceived(std::vector<double> received_R, int ranks_per_node) {
  received_ = std::move(received_R);
  ranks_per_node_ = std::max(1, ranks_per_node);
}

int RankMatrix::fullest() const {
  return received_.empty() ? -1 : to_int(std::ranges::max_element(received_) - received_.begin());
}

int RankMatrix::marked() const {
  const int rank = fullest();
  return rank >= 0 && received_[rank] >= kEvenRanks ? rank : -1;
}

int RankMatrix::leftMargin() const {
  const int ranks = fontMetrics().horizontalAdvance(QString::number(std::max(0, rows() - 1)));
  const int node = nodes() > 1 ? fontMetrics().horizontalAdvance("node 00") + kSpace8 : 0;
  return std::max(node + ranks, fontMetrics().horizontalAdvance("\u00d7 the mean")) + kSpace8;
}

int RankMatrix::figuresWidth() const {
  int widest = 0;
  for (const Figure& figure : figures_) {
    const int name = fontMetrics().horizontalAdvance(figure.name);
    if (isLow())
      widest = std::max(widest, name + kSpace12 + QFontMetrics(semibold(font())).horizontalAdvance(figure.value));
    else
      widest = std::max({widest, name, fontMetrics().horizontalAdvance(figure.context),
                         QFontMetrics(typeFont(Type::figure, true)).horizontalAdvance(figure.value)});
  }
  return widest + 1;
}

bool RankMatrix::isLow() const {
  return height() < withType(kLow);
}

int RankMatrix::figureHeight() const {
  return isLow() ? fontMetrics().height()
                 : 2 * fontMetrics().height() + QFontMetrics(typeFont(Type::figure, true)).height();
}

RankMatrix::Parts RankMatrix::parts() const {
  const int gap = withType(kSpace16), least_side = withType(kMinMatrix);
  const int top = isLow() ? fontMetrics().height() / 2 : fontMetrics().height() + kSpace8;
  const QRect room = rect().adjusted(leftMargin(), top, -1, -bottomMargin());
  const int bars = std::clamp(room.height() / 4, withType(kMinBars), withType(kMaxBars));
  const bool has_bars = room.height() - bars - kSpace8 >= least_side;
  const int height = std::max(1, has_bars ? room.height() - bars - kSpace8 : room.height());
  const int figures = figures_.empty() ? 0 : figuresWidth() + gap;
  const bool has_figures = figures > 0 && room.width() - figures >= std::max(isLow() ? 0 : least_side, height * 3 / 4);
  const int width = std::min(room.width() - (has_figures ? figures : 0), static_cast<int>(kMaxCellRatio * height));
  Parts parts;
  parts.matrix = QRect(room.left(), room.bottom() + 1 - height, std::max(1, width), height);
  if (has_bars) parts.bars = QRect(room.left(), room.top(), parts.matrix.width(), bars);
  if (has_figures) parts.figures = QRect(parts.matrix.right() + gap, room.top(), figures - gap, room.height());
  return parts;
}

QMargins RankMatrix::margins() const {
  const QRect matrix = parts().matrix;
  return {matrix.left(), matrix.top(), width() - 1 - matrix.right(), height() - 1 - matrix.bottom()};
}

double RankMatrix::barScale() const {
  const int rank = fullest();
  return rank < 0 ? 0 : parts().bars.height() / std::max(kLowestBarTop, received_[rank]);
}

QRectF RankMatrix::barRect(int rank) const {
  const QRect bars = parts().bars;
  if (bars.isEmpty() || rank < 0 || rank >= std::ssize(received_)) return {};
  const QRectF cell = cellRect(0, rank);
  const double gap = cell.width() < kThinBar ? 0 : 1, height = received_[rank] * barScale();
  return {cell.left() + gap, bars.bottom() + 1 - height, cell.width() - 2 * gap, height};
}

QRect RankMatrix::figureRect(int figure) const {
  const QRect column = parts().figures;
  const int count = to_int(figures_.size());
  const int fitting = std::min(count, column.height() / std::max(1, figureHeight()));
  if (column.isEmpty() || figure >= fitting) return {};
  const int pitch =
      std::min(column.height() / std::max(1, fitting), figureHeight() + withType(isLow() ? kSpace4 : kSpace16));
  return {column.left(), column.top() + figure * pitch, column.width(), figureHeight()};
}

int RankMatrix::barAt(QPoint position) const {
  const QRect bars = parts().bars;
  if (!bars.contains(position) || rows() == 0) return -1;
  return std::min(rows() - 1, (position.x() - bars.left()) * rows() / bars.width());
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

QString RankMatrix::cellText(int row, int column) const {
  return threeDigits(bytes_[static_cast<std::size_t>(row) * rows() + column] / unit_bytes_);
}

// The heading replaces the captions of the axes.
void RankMatrix::paintStatic(QPainter& painter) {
  if (isLow()) return;
  const QFont usual = painter.font();
  painter.setFont(typeFont(Type::body, true));
  painter.setPen(palette().text().color());
  const QString heading = fittingText({"Who sends what to whom", "Who to whom"}, painter.fontMetrics(), width());
  painter.drawText(captionRow(), Qt::AlignLeft | Qt::AlignVCenter, heading);
  const int end = painter.fontMetrics().horizontalAdvance(heading) + kSpace12;
  painter.setFont(usual);
  paintFlatLegend(painter, captionRow().adjusted(end, 0, 0, 0), legend(), palette());
}

void RankMatrix::paintData(QPainter& painter) {
  MatrixPlot::paintData(painter);
  if (rows() == 0) return;
  paintTexts(painter, sizeFor(QStringLiteral("99.9")), [this](int row, int column) { return cellText(row, column); });
  paintNodes(painter);
  paintRanks(painter);
  if (!parts().bars.isEmpty()) paintBars(painter);
  if (marked() >= 0) paintFrame(painter, cellRect(0, marked()).united(cellRect(rows() - 1, marked())));
  paintFigures(painter);
}

// Paints lines between the nodes, and the names of the nodes beside and below the numbers of their ranks.
void RankMatrix::paintNodes(QPainter& painter) const {
  if (nodes() < 2) return;
  const QRect cells = cellsRect();
  const int line = fontMetrics().height();
  const double below_from = fromTop() + line;  // the word "from" stands above the name of the first node
  for (int node = 0; node < nodes(); ++node) {
    const int first = node * ranks_per_node_, last = std::min(rows(), first + ranks_per_node_) - 1;
    const QRectF ranks = cellRect(first, first).united(cellRect(last, last));
    if (node > 0) {
      painter.setPen(QPen(palette().text().color(), 1.5));
      painter.drawLine(QPointF(cells.left(), ranks.top()), QPointF(cells.right(), ranks.top()));
      painter.drawLine(QPointF(ranks.left(), cells.top()), QPointF(ranks.left(), cells.bottom()));
    }
    painter.setPen(mutedText(palette()));
    const QString name = QString("node %1").arg(node);
    if (ranks.height() >= 2 * line)
      painter.drawText(QRectF(0, std::max(ranks.center().y() - line / 2.0, below_from), leftMargin(), line),
                       Qt::AlignLeft | Qt::AlignVCenter, name);
    const QString below = fittingText({name}, fontMetrics(), static_cast<int>(ranks.width()) - kSpace4);
    if (!isLow())
      painter.drawText(QRectF(ranks.left(), cells.bottom() + line, ranks.width(), line), Qt::AlignCenter, below);
  }
}

// Paints as many numbers of ranks as fit; that of the fullest rank is bold.
void RankMatrix::paintRanks(QPainter& painter) const {
  const QRect cells = cellsRect();
  const int line = fontMetrics().height(), widest = fontMetrics().horizontalAdvance(QString::number(rows()));
  const int across = labelStride(widest + kSpace4, cellRect(0, 0).width(), rows());
  const int down = labelStride(fontMetrics().ascent(), cellRect(0, 0).height(), rows());
  painter.setPen(mutedText(palette()));
  for (int rank = 0; rank < rows(); rank += down)
    painter.drawText(QRectF(0, cellRect(rank, 0).center().y() - line / 2.0, cells.left() - kSpace4, line),
                     Qt::AlignRight | Qt::AlignVCenter, QString::number(rank));
  for (int rank = 0; rank < rows(); ++rank) {
    const bool strong = rank == marked();
    if (!strong && (rank % across != 0 || (marked() >= 0 && std::abs(rank - marked()) < across))) continue;
    painter.setFont(strong ? semibold(font()) : font());
    painter.setPen(strong ? palette().text().color() : mutedText(palette()));
    const double x = cellRect(0, rank).center().x();
    painter.drawText(QRectF(x - widest, cells.bottom() + 1, 2 * widest, line), Qt::AlignCenter, QString::number(rank));
  }
  painter.setFont(font());
  painter.setPen(mutedText(palette()));
  painter.drawText(QRect(0, fromTop(), cells.left(), line), Qt::AlignLeft | Qt::AlignTop,
                   legend().caption.section(u',', 0, 0) + ", from");
  painter.drawText(QRect(0, cells.bottom() + 1, cells.left() - kSpace4, line), Qt::AlignLeft | Qt::AlignVCenter,
                   fittingText({"to rank", "to"}, fontMetrics(), cells.left() - kSpace8));
}

void RankMatrix::paintBars(QPainter& painter) const {
  const QRect bars = parts().bars;
  const Colors& c = colors(palette());
  const int line = fontMetrics().height();
  const bool has_texts = cellRect(0, 0).width() >= fontMetrics().horizontalAdvance(QStringLiteral("0.00")) + 2;
  for (int rank = 0; rank < rows(); ++rank) {
    const QRectF bar = barRect(rank);
    const QColor color(rank == marked() ? c.strong_bar : c.plain_bar);
    painter.fillRect(bar, color);
    if (!has_texts) continue;
    const bool is_low = bar.height() < line;
    painter.setFont(rank == marked() ? semibold(font()) : font());
    painter.setPen(is_low ? palette().text().color() : textOn(color.rgb()));
    const double top = bars.bottom() + 1 - line - (is_low ? bar.height() : 0);
    painter.drawText(QRectF(bar.left() - kSpace4, top, bar.width() + 2 * kSpace4, line), Qt::AlignCenter,
                     QString::number(received_[rank], 'f', 2));
  }
  painter.setFont(font());
  const double mean = bars.bottom() + 1 - barScale();
  painter.setPen(QPen(palette().text().color(), 1, Qt::DashLine));
  painter.drawLine(QPointF(bars.left() - kSpace4, mean), QPointF(bars.right() + kSpace4, mean));
  painter.setPen(mutedText(palette()));
  const QRect label(0, 0, bars.left() - kSpace8, line);
  painter.drawText(label.translated(0, bars.bottom() + 1 - 2 * line), Qt::AlignRight | Qt::AlignVCenter, "received,");
  painter.drawText(label.translated(0, bars.bottom() + 1 - line), Qt::AlignRight | Qt::AlignVCenter, "\u00d7 the mean");
  const int mean_top = static_cast<int>(mean) - line / 2;
  if (mean_top + line <= bars.bottom() + 1 - 2 * line)
    painter.drawText(label.translated(0, mean_top), Qt::AlignRight | Qt::AlignVCenter, "mean");
}

void RankMatrix::paintFigures(QPainter& painter) const {
  for (int i = 0; i < std::ssize(figures_); ++i) {
    const QRect place = figureRect(i);
    if (place.isEmpty()) return;
    const Figure& figure = figures_[i];
    painter.setFont(font());
    painter.setPen(mutedText(palette()));
    painter.drawText(place, Qt::AlignLeft | Qt::AlignTop, figure.name);
    if (!isLow()) painter.drawText(place, Qt::AlignLeft | Qt::AlignBottom, figure.context);
    painter.setFont(isLow() ? semibold(font()) : typeFont(Type::figure, true));
    painter.setPen(palette().text().color());
    painter.drawText(place, (isLow() ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter, figure.value);
  }
  painter.setFont(font());
}

}  // namespace moescope
