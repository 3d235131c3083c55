// A text routed token by token (the probe, a passage of the data, or a sample of the model), and the path of one token.
#pragma once

#include <QComboBox>
#include <QPlainTextEdit>
#include <QStackedWidget>
#include <memory>
#include <vector>

#include "core/frame/frame.h"
#include "widgets/panel/controls.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/plot_frame.h"
#include "widgets/text/token_text_view.h"

namespace moescope {

// Path of one token through the layers: a column for each layer, split by the mixing shares of the token's experts.
class TokenPathPlot : public PlotFrame {
  Q_OBJECT

 public:
  using PlotFrame::PlotFrame;
  std::function<QStringList(int position, int layer)> describe;  // the readout
  void setPath(std::shared_ptr<const TokenFrame> text, int position, std::vector<TokenTextView::Row> columns);
  void setCurrent(int layer, int expert) {
    layer_ = layer;
    expert_ = expert;
  }
  QSize minimumSizeHint() const override {  // the bars have room for their numbers
    return {120, margins().top() + margins().bottom() + fontMetrics().height() + 2};
  }

 signals:
  void expertChosen(int layer, int expert);

 protected:
  QMargins margins() const override { return {8, 3 * fontMetrics().height() / 2 + 3, 8, withType(18)}; }
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void mousePressEvent(QMouseEvent* event) override;

 private:
  struct Piece {
    QRectF box;
    int layer, expert;
    float share;
  };
  QStringList titles() const;  // from long to short
  std::vector<Piece> pieces() const;
  const Piece* pieceAt(QPoint position) const;

  std::shared_ptr<const TokenFrame> text_;
  int position_ = -1, layer_ = -1, expert_ = -1;
  std::vector<TokenTextView::Row> columns_;
  std::vector<Piece> pieces_;
};

class TokensAndSamplePanel : public Panel {
  Q_OBJECT

 public:
  enum class Shows { probe_and_data, sample };
  TokensAndSamplePanel(Selection* selection, Shows shows, QWidget* parent = nullptr);
  ValueTable table() const override;
  QString explain() const override;

  void setEditable(bool editable);  // true: the probe text can be changed, as in training
  TokenPathPlot* path() const { return path_; }

 signals:
  void probeWanted(const QString& escaped);  // with the escapes of telemetry.probe

 protected:
  QString status() const override;
  QString nextSample() const;  // ", next at step 200"; empty: not known
  Answer answer() const override;
  Answer answerOfExpert(const TokenLayer& routed) const;
  QString tokensOfText() const;

 private:
  void beginEditing();
  void addControls();
  QWidget* makeEditor();
  void refill();
  void refillPath();
  void findText();
  void fillTexts();
  ExpertColors colorsOf(const TokenLayer& layer);
  void choose(int layer, int expert);
  void applyEdit();
  // Selected domain; empty for the probe
  QString wantedDomain() const { return what_ ? what_->currentData().toString() : QString(); }
  QStringList describe(int position, int layer) const;

  const Shows shows_;
  TokenTextView* view_;
  TokenPathPlot* path_;
  QStackedWidget* stack_;
  QPlainTextEdit* editor_ = nullptr;
  QLabel* problem_ = nullptr;
  QComboBox *what_ = nullptr, *color_;
  QToolButton* all_layers_;
  std::shared_ptr<const TokenFrame> text_;
  std::shared_ptr<const TelemetryFrame> arrays_;  // frame of the text's step, for biases
  std::int64_t step_ = -1;
  int token_ = -1;
  bool editable_ = false;
  std::string token_text_;  // text to which token_ belongs
  QString wished_;          // domain restored before the run was known
  QString first_probe_;     // with escapes, while an own text takes its place
};

}  // namespace moescope
