// A text routed token by token (the probe, a passage of the data, or a sample of the model), and one token's path.
#pragma once

#include <QComboBox>
#include <QPlainTextEdit>
#include <QStackedWidget>

#include "widgets/panel/layer_combo.h"
#include "widgets/panel/panel.h"
#include "widgets/text/token_path_plot.h"
#include "widgets/text/token_text_view.h"

namespace moescope {

class TokensAndSamplePanel : public Panel {
  Q_OBJECT

 public:
  enum class Shows { probe_and_data, sample };
  TokensAndSamplePanel(Selection* selection, Shows shows, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;

  void setEditable(bool editable);  // whether the probe text can be changed, as in training
  TokenPathPlot* path() const { return path_; }

 signals:
  void probeWanted(const QString& escaped);  // escaped as in telemetry.probe

 protected:
  QString status() const override;
  Answer answer() const override;

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
  QString wantedDomain() const;  // selected domain; empty: the probe
  QStringList describe(int position, int layer) const;

  const Shows shows_;
  TokenTextView* view_;
  TokenPathPlot* path_;
  QStackedWidget* stack_;
  QPlainTextEdit* editor_ = nullptr;
  QLabel* problem_ = nullptr;
  QComboBox *what_ = nullptr, *color_;
  QToolButton *all_layers_, *edit_ = nullptr;
  std::shared_ptr<const TokenFrame> text_;
  std::shared_ptr<const TelemetryFrame> arrays_;  // frame of the text's step, for biases
  std::int64_t step_ = -1;
  int token_ = -1;
  bool editable_ = false;
  std::string token_text_;  // text to which token_ belongs
  QString wished_;          // domain restored before the run was known
};

}  // namespace moescope
