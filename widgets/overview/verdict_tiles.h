// Four figures below the verdict: largest overload, spread and entropy of the load, unused experts; each with its
// place, the value of chance, and its curve over the run. They cover the same 50 steps as the verdict, or the 50 steps
// up to the cursor. A click opens the explain card. In a narrow window the curves are hidden first, then whole tiles.
#pragma once

#include <QAbstractButton>
#include <QList>
#include <QStringList>
#include <array>

#include "core/findings/explain/explain.h"
#include "core/recording/history/router_window.h"
#include "widgets/overview/findings_watch.h"

namespace moescope {

// The content of a tile.
struct TileContent {
  QString value = {}, unit = {};
  QString steps = {};              // steps of the window
  QString brief_steps = {};        // "last 50"
  QStringList context = {};        // place and value of chance, from long to short
  std::vector<double> curve = {};  // values of the curve; NaN: no value
  int color = 0;                   // colour of the curve: that of the run, an index of seriesColor
  double chance = kNoValue;        // value of chance, a dashed line; NaN: none
  struct Beside {
    QString letter, value, steps;
    int color;
  };
  std::vector<Beside> other_runs = {};  // the same figure of the other open runs; in place of the steps
};

class VerdictTile : public QAbstractButton {
  Q_OBJECT

 public:
  VerdictTile(const QString& name, QWidget* parent);
  void setContent(TileContent content);
  const TileContent& content() const { return content_; }
  int leastWidth() const;  // smallest width in which no text is cut
  QSize sizeHint() const override;

 protected:
  void paintEvent(QPaintEvent*) override;

 private:
  void paintTexts(QPainter& painter, int room) const;
  void paintBeside(QPainter& painter, QPoint at, int right) const;
  void paintCurve(QPainter& painter, const QRectF& place) const;
  int curveWidth() const;  // width of the curve; 0: no room

  TileContent content_;
};

class VerdictTiles : public QWidget {
  Q_OBJECT

 public:
  VerdictTiles(Selection* selection, FindingsWatch* watch, QWidget* parent);
  QList<VerdictTile*> tiles() const { return {tiles_.begin(), tiles_.end()}; }
  QSize sizeHint() const override;

 protected:
  void paintEvent(QPaintEvent*) override;
  void resizeEvent(QResizeEvent*) override { place(); }

 private:
  enum Which { overload, spread, entropy, dead };
  void markDirty();
  void fill();
  void addOthers(std::array<TileContent, 4>& contents) const;
  void place();
  TileContent worstContent(Which tile, const RouterWindow& window, const History& history);  // overload or spread
  TileContent entropyContent(const RouterWindow& window, const History& history);
  std::ptrdiff_t starvedExperts(const RouterWindow& window) const;
  TileContent deadContent(const RouterWindow& window, const History& history) const;
  std::vector<double> curveOf(Which tile, const History& history, int layer, double LayerWindow::*figure);
  void openCard(Which tile);
  FigureTarget target(Which tile) const;

  Selection* selection_;
  FindingsWatch* watch_;
  std::array<VerdictTile*, 4> tiles_;
  std::array<int, 4> layers_{-1, -1, -1, -1};  // layer of each tile's figure
  bool dirty_ = true;
};

}  // namespace moescope
