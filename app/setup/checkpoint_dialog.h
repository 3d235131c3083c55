// Asks which texts to run through the model of a checkpoint. Shows beforehand how large the model is and how long a run
// takes. Also offers to set up a training from the checkpoint.
#pragma once

#include <QDialog>
#include <QStringList>
#include <thread>

#include "app/session/checkpoint_job.h"

class QComboBox;
class QLabel;
class QListWidget;
class QPlainTextEdit;
class QPushButton;

namespace moescope {

class CheckpointDialog : public QDialog {
  Q_OBJECT

 public:
  // `has_log`: a log of the training is in the folder of the weights and can be opened instead.
  CheckpointDialog(const QString& folder, bool has_log, QWidget* parent);
  ~CheckpointDialog() override;  // waits until the model has been read
  void addFiles(const QStringList& paths);
  // Offers an open checkpoint as the reference, together with the texts that it was run on.
  void offerReference(const CheckpointTexts& open);
  void setReference(const QString& folder);  // selects another checkpoint, which becomes run A on the same texts

 signals:
  void chosen(CheckpointTexts texts);
  void trainingWanted();  // requests the set-up of a training that starts from these weights
  void tensorsWanted();
  void logWanted();

 protected:
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  void describe();
  void enableRun();
  void followReference();
  CheckpointTexts texts() const;

  QString folder_;
  QLabel* facts_;
  QPlainTextEdit* prompt_;
  QListWidget* files_;
  QComboBox* reference_;
  CheckpointTexts open_;  // the checkpoint of offerReference()
  QPushButton* run_;
  bool readable_ = false;
  std::thread reader_;
};

}  // namespace moescope
