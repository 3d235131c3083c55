// Communication cost of the routing of one layer: bytes from rank to rank, standard and de-duplicated.
#pragma once

#include <QComboBox>
#include <vector>

#include "core/frame/volume_stats.h"
#include "core/parallel/volumes.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/matrix_plot.h"

namespace moescope {

// Copies from rank to rank as a matrix, with a bar for the copies that each rank receives and a column of figures. A
// narrow plot hides the figures first, then the bars.
class RankMatrix : public MatrixPlot {
  Q_OBJECT

 public:
  struct Figure {
    QString name, value;
    FigureTarget target;
  };
  explicit RankMatrix(QWidget* parent = nullptr);

  void setReceived(std::vector<double> received_R, int ranks_per_node);  // received copies as multiples of the mean
  void setFigures(std::vector<Figure> figures) { figures_ = std::move(figures); }
  std::function<QStringList(int rank)> describeReceived;
  FigureTarget receivedFigure{.key = "dispatch_overload"};

  int fullest() const;  // rank that receives most copies; -1: there are no ranks
  QRect figureRect(int figure) const;
  QRectF barRect(int rank) const;  // empty if there is no room for bars
  std::optional<FigureTarget> figureAt(QPoint position) const override;

 protected:
  QMargins margins() const override;
  void paintStatic(QPainter&) override {}
  void paintData(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;

 private:
  struct Parts {
    QRect matrix, bars, figures;  // empty if there is no room
  };
  Parts parts() const;
  int labelWidth() const;
  int leastBarsWidth() const;
  int figuresWidth() const;
  int barAt(QPoint position) const;
  double barScale() const;  // pixels for the mean
  void paintNodes(QPainter& painter) const;
  void paintRowLabels(QPainter& painter) const;
  void paintColumnLabels(QPainter& painter) const;
  void paintBars(QPainter& painter) const;
  void paintFigures(QPainter& painter) const;

  std::vector<double> received_;
  std::vector<Figure> figures_;
  int ranks_per_node_ = 0;
};

class AllToAllPanel : public Panel {
  Q_OBJECT

 public:
  explicit AllToAllPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  void refill();
  void fillMatrix(const VolumeFrame& volume);
  void fillFigures(const VolumeFrame& volume);
  const VolumeFrame* volume(const TelemetryFrame* frame) const;  // volumes of the selected layer; nullptr: none
  bool deduplicated() const { return mode_->currentIndex() == 1; }
  Payload payload() const { return static_cast<Payload>(payload_->currentIndex()); }
  // Bytes of the row of a token in the selected payload.
  double bytesPerCopy() const { return bytes_per_token(payload(), selection_->history()->info().dim); }
  QStringList describe(int source, int destination) const;
  QStringList describeReceived(int rank) const;
  FigureTarget figure(FigureKey key) const;

  RankMatrix* view_;
  QComboBox *mode_, *payload_;
  std::shared_ptr<const TelemetryFrame> shown_;
};

}  // namespace moescope
