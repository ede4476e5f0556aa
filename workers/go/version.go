package rota

const (
	version  = "0.1.0"
	sdkName  = "rota-go/" + version
	protocol = 1
)
