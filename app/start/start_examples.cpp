#include "app/start/start_examples.h"

#include <QPainter>
#include <array>
#include <cmath>
#include <cstdint>

#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

namespace {

constexpr int kExampleWidth = 120, kExampleHeight = 76;
constexpr int kExampleExperts = 10, kExampleSteps = 44, kExampleRanks = 8;

// A pseudorandom number in [0, 1), the same in every run.
double invented(int a, int b) {
  auto bits = static_cast<std::uint32_t>(a) * 2654435761U ^ static_cast<std::uint32_t>(b) * 40503U;
  bits ^= bits >> 13;
  bits *= 1274126177U;
  return static_cast<double>(bits >> 8 & 0xFFFF) / 0xFFFF;
}

// The colour at `share` of a colour map, interpolated.
QColor shade(const std::array<QRgb, 7>& map, double share) {
  const double at = std::clamp(share, 0.0, 1.0) * 6;
  const auto below = static_cast<std::size_t>(std::min(at, 5.0));
  const double part = at - static_cast<double>(below);
  const QColor a(map[below]), b(map[below + 1]);
  const auto mix = [part](int from, int to) { return static_cast<int>(from + part * (to - from)); };
  return {mix(a.red(), b.red()), mix(a.green(), b.green()), mix(a.blue(), b.blue())};
}

void paintCurve(QPainter& painter, const QRectF& room, const QColor& color, double (*height)(double)) {
  constexpr int kPoints = 80;
  QPolygonF curve;
  for (int i = 0; i < kPoints; ++i) {
    const double x = i / (kPoints - 1.0);
    curve << QPointF(room.left() + x * room.width(), room.bottom() - height(x) * room.height());
  }
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(color, kCurveWidth));
  painter.drawPolyline(curve);
}

double overloadExample(double x) {
  const double rise = std::exp(-std::pow((x - 0.09) / 0.055, 2));
  return 0.08 + 0.9 * rise + 0.02 * std::sin(60 * x);
}

double lossExample(double x) {
  return 0.1 + 0.88 * std::exp(-5 * x) + 0.012 * std::sin(47 * x);
}

void paintVerdict(QPainter& painter, const QRect& room, const QPalette& palette) {
  const Colors& c = colors(palette);
  const QFontMetrics metrics = painter.fontMetrics();
  const int mark = withType(kMarkSize, metrics);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(Qt::NoPen);
  painter.setBrush(QColor(c.good));
  const QRectF disk(room.left() + 1, room.top(), mark, mark);
  painter.drawEllipse(disk);
  painter.setPen(QPen(QColor(c.surface), 2, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
  painter.drawPolyline(QPolygonF({{disk.left() + mark * 0.28, disk.top() + mark * 0.53},
                                  {disk.left() + mark * 0.44, disk.top() + mark * 0.68},
                                  {disk.left() + mark * 0.73, disk.top() + mark * 0.36}}));
  painter.setFont(semibold(painter.font()));
  painter.setPen(QColor(c.good));
  painter.drawText(QRect(room.left() + mark + kSpace8, room.top(), room.width(), mark), Qt::AlignVCenter, "Healthy");
  const QRectF plot = QRectF(room).adjusted(0, mark + kSpace4, 0, -kSpace4);
  painter.setPen(QPen(QColor(c.axis), 1, Qt::DashLine));
  painter.drawLine(QPointF(plot.left(), plot.bottom()), QPointF(plot.right(), plot.bottom()));
  paintCurve(painter, plot, QColor(c.series[0]), overloadExample);
}

void paintLoss(QPainter& painter, const QRect& room, const QPalette& palette) {
  const Colors& c = colors(palette);
  painter.setPen(QColor(c.grid));
  for (int line = 0; line <= 3; ++line) {
    const int y = room.top() + line * (room.height() - 1) / 3;
    painter.drawLine(room.left(), y, room.right(), y);
  }
  paintCurve(painter, QRectF(room), QColor(c.series[0]), lossExample);
}

void paintLoad(QPainter& painter, const QRect& room, const QPalette& palette) {
  const Colors& c = colors(palette);
  for (int expert = 0; expert < kExampleExperts; ++expert)
    for (int step = 0; step < kExampleSteps; ++step) {
      const double early = std::exp(-std::pow((step - 8.0) / 7, 2));
      const double kept = expert == 5 ? -0.45 : expert == 9 ? 0.45 : 0;
      const double lean = (invented(expert, 7) - 0.5) * 1.2 * early + kept * std::exp(-step / 40.0);
      const double share = 0.5 + lean + 0.3 * (invented(expert, step) - 0.5);
      const int left = room.left() + room.width() * step / kExampleSteps;
      const int right = room.left() + room.width() * (step + 1) / kExampleSteps;
      const int top = room.top() + room.height() * expert / kExampleExperts;
      const int bottom = room.top() + room.height() * (expert + 1) / kExampleExperts;
      painter.fillRect(left, top, right - left, bottom - top, shade(c.load, share));
    }
}

// Paints a matrix of `rows` x `columns` cells with gaps of one pixel.
void paintCells(QPainter& painter, const QRect& room, int rows, int columns, const Colors& c,
                double (*share)(int, int)) {
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column) {
      const int left = room.left() + room.width() * column / columns;
      const int right = room.left() + room.width() * (column + 1) / columns;
      const int top = room.top() + room.height() * row / rows, bottom = room.top() + room.height() * (row + 1) / rows;
      const QColor cell = row == column && rows == columns ? QColor(c.hairline) : shade(c.matrix, share(row, column));
      painter.fillRect(left, top, right - left - 1, bottom - top - 1, cell);
    }
}

void paintAllToAll(QPainter& painter, const QRect& room, const QPalette& palette) {
  const Colors& c = colors(palette);
  const int side = std::min(room.height(), room.width() * 45 / 100);
  paintCells(painter, {room.left(), room.top(), side, room.height()}, kExampleRanks, kExampleRanks, c,
             [](int row, int column) { return invented(row, column) * (column == 3 ? 1 : 0.7); });
  const int left = room.left() + side + kSpace12, most = room.right() - left;
  for (int rank = 0; rank < kExampleRanks; ++rank) {
    const bool fullest = rank == 3;
    const double share = fullest ? 1 : 0.55 + 0.2 * invented(rank, 3);
    const int top = room.top() + room.height() * rank / kExampleRanks;
    const int bottom = room.top() + room.height() * (rank + 1) / kExampleRanks;
    painter.fillRect(left, top + 1, static_cast<int>(most * share), bottom - top - 3,
                     QColor(fullest ? c.strong_bar : c.plain_bar));
  }
}

void paintFormat(QPainter& painter, const QRect& room, const QPalette& palette) {
  paintCells(painter, room, 3, 9, colors(palette),
             [](int row, int column) { return (column % 3 == 2 ? 0.55 : 0.22) + 0.2 * invented(row, column); });
}

}  // namespace

StartExamplePicture::StartExamplePicture(StartExample which, QWidget* parent) : QWidget(parent), which_(which) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

QSize StartExamplePicture::sizeHint() const {
  return {withType(kExampleWidth, fontMetrics()), withType(kExampleHeight, fontMetrics())};
}

void StartExamplePicture::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  switch (which_) {
    case StartExample::verdict:
      return paintVerdict(painter, rect(), palette());
    case StartExample::loss:
      return paintLoss(painter, rect(), palette());
    case StartExample::load:
      return paintLoad(painter, rect(), palette());
    case StartExample::all_to_all:
      return paintAllToAll(painter, rect(), palette());
    case StartExample::format:
      return paintFormat(painter, rect(), palette());
  }
}

}  // namespace moescope
