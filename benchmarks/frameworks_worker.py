"""TensorFlow's and PaddlePaddle's sides of frameworks.py: the same networks as Braid's, and training steps on request.

frameworks_worker.py OPTIONS, a JSON object. Answers "run N" and "setting" in lines of JSON, like `braid bench --serve`.
"""
import contextlib
import json
import os
import sys
import time


def tensorflow_training(options):
    """A function that trains on one batch and returns the loss, and the bytes of weights, momentum and statistics."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(options["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.random.set_seed(1)
    names = {"resnet50": "ResNet50", "mobilenet_v2": "MobileNetV2", "densenet121": "DenseNet121", "vgg16": "VGG16"}
    size, classes = options["image_size"], options["classes"]
    model = getattr(tf.keras.applications, names[options["model"]])(weights=None, input_shape=(size, size, 3), classes=classes,
                                                                    classifier_activation=None)
    images = tf.random.normal((options["batch_size"], size, size, 3))
    labels = tf.random.uniform((options["batch_size"],), maxval=classes, dtype=tf.int32)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    sgd = tf.keras.optimizers.SGD(options["lr"], momentum=options["momentum"])
    sgd.build(model.trainable_variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        sgd.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    count = sum(2 * int(tf.size(weight)) for weight in model.trainable_variables)
    count += sum(int(tf.size(value)) for value in model.non_trainable_variables if "moving" in value.path)
    return lambda: float(step()), 4 * count, tf.__version__


def paddle_training(options):
    os.environ["FLAGS_use_mkldnn"] = "1"
    os.environ["OMP_NUM_THREADS"] = str(options["threads"])
    import paddle
    paddle.set_device("cpu")
    paddle.seed(1)
    size, classes = options["image_size"], options["classes"]
    model = getattr(paddle.vision.models, options["model"])(num_classes=classes)
    images = paddle.randn((options["batch_size"], 3, size, size))
    labels = paddle.randint(0, classes, (options["batch_size"],))
    sgd = paddle.optimizer.Momentum(options["lr"], options["momentum"], parameters=model.parameters())

    def step():
        loss = paddle.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        sgd.step()
        sgd.clear_grad()
        return float(loss)

    count = sum(2 * value.size for value in model.parameters() if not value.stop_gradient)
    count += sum(value.size for name, value in model.state_dict().items() if name.endswith(("._mean", "._variance")))
    return step, 4 * count, paddle.__version__


def main():
    options = json.loads(sys.argv[1])
    with contextlib.redirect_stdout(sys.stderr):
        step, size, version = {"tensorflow": tensorflow_training, "paddle": paddle_training}[options["framework"]](options)
    print(json.dumps({"ready": True, "version": version}), flush=True)
    for line in sys.stdin:
        if line.strip() == "setting":
            print(json.dumps({"persistent_bytes": size}), flush=True)
            continue
        seconds = []
        with contextlib.redirect_stdout(sys.stderr):
            for _ in range(int(line.split()[1])):
                begin = time.perf_counter()
                step()
                seconds.append(time.perf_counter() - begin)
        print(json.dumps({"seconds": sum(seconds), "host_seconds": sorted(seconds)[len(seconds) // 2]}), flush=True)


if __name__ == "__main__":
    main()
