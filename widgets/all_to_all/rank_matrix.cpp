#include "widgets/all_to_all/rank_matrix.h"

#include <QApplication>
#include <QPainter>
#include <algorithm>
#include <utility>

#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"

namespace moescope {
namespace {

constexpr int kLeastMatrix = 64, kLeastBar = 56, kMostBar = 320;  // logical pixels beside the usual type

QFont figureType() {
  return typeFont(QApplication::font(), Type::body, true);
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
  return rank < 0 ? 0 : room / std::max(1.0, received_[static_cast<std::size_t>(rank)]);
}

QRectF RankMatrix::barRect(int rank) const {
  const QRect bars = parts().bars;
  if (bars.isEmpty() || rank < 0 || rank >= std::ssize(received_)) return {};
  const QRectF cell = cellRect(rank, 0);
  const double gap = cell.height() < 4 ? 0 : 1, left = bars.left() + labelWidth() + kSpace4;
  return {left, cell.top() + gap, received_[static_cast<std::size_t>(rank)] * barScale(), cell.height() - 2 * gap};
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
    if (figureRect(i).contains(position)) return figures_[static_cast<std::size_t>(i)].target;
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

// Paints the numbers of the first, the last and the fullest rank below the matrix; labels that would touch an earlier
// one are left out.
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
                       Qt::AlignLeft | Qt::AlignVCenter,
                       QString::number(received_[static_cast<std::size_t>(rank)], 'f', 2));
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
    const Figure& figure = figures_[static_cast<std::size_t>(i)];
    painter.setFont(font());
    painter.setPen(mutedText(palette()));
    painter.drawText(place, Qt::AlignLeft | Qt::AlignTop, figure.name);
    painter.setFont(figureType());
    painter.setPen(palette().text().color());
    painter.drawText(place, Qt::AlignLeft | Qt::AlignBottom, figure.value);
  }
  painter.setFont(font());
}

}  // namespace moescope
