/* Browsers refuse workers on pages opened from the file system. There, search runs in a hidden frame instead. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessageToPage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      this.ready = new Promise((resolve) => {
        inner.workerLoaded = resolve;
      });
      inner.document.open();
      inner.document.write(`<!doctype html><script>
        window.postMessage = (data) => window.postMessageToPage(data);
        window.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done) => {
          const script = document.createElement("script");
          script.src = url;
          script.onload = done;
          document.body.appendChild(script);
        })), Promise.resolve());
      </script><body><script src="${url}" onload="window.workerLoaded()"></script></body>`);
      inner.document.close();
    }

    postMessage(data) {
      this.ready = this.ready.then(() => {
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
      });
    }

    terminate() {
      this.frame.remove();
    }
  };
}
